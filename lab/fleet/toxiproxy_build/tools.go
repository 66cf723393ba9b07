//go:build tools

// Package build pins Toxiproxy and, in go.sum, the checksum of every module that it is built from.
package build

import _ "github.com/Shopify/toxiproxy/v2/cmd/server"
