//go:build tools

// Package build pins MinIO and, in go.sum, the checksum of every module that it is built from.
package build

import _ "github.com/minio/minio"
