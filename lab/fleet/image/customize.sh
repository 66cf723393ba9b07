#!/bin/sh
# Turns the fresh Debian root at $1 into a node: reachable by key only, quiet at boot, nothing started that a role starts.
set -eu
root=$1
in_root() { chroot "$root" "$@"; }

cat > "$root/etc/ssh/sshd_config.d/node.conf" <<'CONF'
# Host keys are put in by the control machine, which therefore knows them before it connects.
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
MaxStartups 100
CONF
rm -f "$root"/etc/ssh/ssh_host_*
install -d -m 700 "$root/root/.ssh"

# A node shares its kernel with the machine it runs on. What is no namespace's own is the machine's: read-only here,
# so that tuning a node never changes the person's machine.
cat > "$root/etc/systemd/system/machine-kernel.service" <<'CONF'
[Unit]
Description=Keep the machine's own kernel settings read-only in this node
DefaultDependencies=no
Before=systemd-sysctl.service sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'for part in vm fs kernel; do mount --bind /proc/sys/$part /proc/sys/$part && mount -o remount,bind,ro /proc/sys/$part; done'
[Install]
WantedBy=sysinit.target
CONF
in_root systemctl -q enable machine-kernel.service

install -d "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nRuntimeMaxUse=64M\n' > "$root/etc/systemd/journald.conf.d/node.conf"
echo 'LANG=C.UTF-8' > "$root/etc/default/locale"
in_root systemctl -q set-default multi-user.target
[ ! -e "$root/usr/sbin/haproxy" ] || in_root systemctl -q disable haproxy.service
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer motd-news.timer systemd-logind.service getty.target console-getty.service systemd-udevd.service \
    systemd-timesyncd.service systemd-networkd.service; do
    in_root systemctl -q mask "$unit"
done

# Empty, not absent: each node gets an identity of its own at boot, without a first boot that re-enables services.
: > "$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"
rm -rf "$root"/var/log/*.log "$root"/var/log/apt "$root"/var/cache/apt/*.bin "$root/etc/apt/apt.conf.d/99mmdebstrap"
