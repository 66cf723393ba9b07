package io.kedge.sandbox;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** What the admin client knows of the cluster, as JSON. Each answer asks the brokers. */
final class ClusterInfo {
  private final KafkaClients clients;

  ClusterInfo(KafkaClients clients) {
    this.clients = clients;
  }

  byte[] topics() {
    ListTopicsOptions all = new ListTopicsOptions().listInternal(true);
    return json(new TreeSet<>(await(clients.admin().listTopics(all).names())));
  }

  byte[] brokers() {
    Collection<Node> nodes = await(clients.admin().describeCluster().nodes());
    return json(Map.of("brokers", nodes.stream().map(Node::id).sorted().toList()));
  }

  byte[] topic(String name) {
    TopicDescription topic =
        await(clients.admin().describeTopics(List.of(name)).topicNameValues().get(name));
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
    Map<String, String> configs = new TreeMap<>();
    for (ConfigEntry entry :
        await(clients.admin().describeConfigs(List.of(resource)).values().get(resource)).entries()) {
      configs.put(entry.name(), entry.value());
    }
    List<Map<String, Object>> partitions = new ArrayList<>();
    for (TopicPartitionInfo each : topic.partitions()) {
      int leader = each.leader() == null ? -1 : each.leader().id();
      List<Map<String, Object>> replicas = new ArrayList<>();
      for (Node replica : each.replicas()) {
        replicas.add(
            ordered(
                "broker", replica.id(),
                "leader", replica.id() == leader,
                "in_sync", each.isr().stream().anyMatch(node -> node.id() == replica.id())));
      }
      partitions.add(ordered("partition", each.partition(), "leader", leader, "replicas", replicas));
    }
    return json(ordered("name", name, "configs", configs, "partitions", partitions));
  }

  byte[] clusters(String baseUrl) {
    DescribeClusterResult described = clients.admin().describeCluster();
    String id = await(described.clusterId());
    String self = baseUrl + "/v3/clusters";
    String own = self + "/" + id;
    Map<String, Object> about = ordered("self", own, "resource_name", "crn:///kafka=" + id);
    Map<String, Object> cluster =
        ordered("kind", "KafkaCluster", "metadata", about, "cluster_id", id);
    Map.of(
            "controller", "/brokers/" + await(described.controller()).id(),
            "acls", "/acls",
            "brokers", "/brokers",
            "broker_configs", "/broker-configs",
            "consumer_groups", "/consumer-groups",
            "topics", "/topics",
            "partition_reassignments", "/topics/-/partitions/-/reassignment")
        .forEach((name, path) -> cluster.put(name, Map.of("related", own + path)));
    return json(
        ordered(
            "kind", "KafkaClusterList",
            "metadata", ordered("self", self, "next", null),
            "data", List.of(cluster)));
  }

  private static Map<String, Object> ordered(Object... namesAndValues) {
    Map<String, Object> map = new LinkedHashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      map.put((String) namesAndValues[i], namesAndValues[i + 1]);
    }
    return map;
  }

  private static byte[] json(Object value) {
    return Wire.bytes(out -> out.writePOJO(value));
  }

  private static <T> T await(KafkaFuture<T> future) {
    try {
      return future.get();
    } catch (ExecutionException e) {
      throw RestError.of(e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw RestError.stopping();
    }
  }
}
