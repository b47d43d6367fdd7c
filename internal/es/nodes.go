package es

import (
	"io"
	"net/url"
	"slices"
	"strconv"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// NodeInfo is what does not change while a node runs.
type NodeInfo struct {
	ID         cluster.NodeID
	Name       string
	Host, IP   string
	Version    cluster.Version // zero where it is not said
	Roles      []string        // sorted
	Attributes map[string]string
	Processors float64 // allocated to the server
	Heap       int64   // bytes, maximum
}

// NodesRequest asks for them.
func NodesRequest() Request {
	return Request{File: "nodes.json", Path: "/_nodes/os,jvm,settings", Query: url.Values{"filter_path": {
		"_nodes,nodes.*.name,nodes.*.host,nodes.*.ip,nodes.*.version,nodes.*.roles,nodes.*.attributes," +
			"nodes.*.os.allocated_processors,nodes.*.os.available_processors,nodes.*.jvm.mem.heap_max_in_bytes," +
			"nodes.*.settings.node.processors",
	}}}
}

// DecodeNodes reads the answer, in its order.
func DecodeNodes(from io.Reader) ([]NodeInfo, error) {
	var nodes []NodeInfo
	r := newReader(from)
	r.object(func(name string) {
		if name != "nodes" {
			return
		}
		r.object(func(id string) {
			nodes = append(nodes, readNodeInfo(r, cluster.NodeID(id)))
		})
	})
	return nodes, r.finish()
}

func readNodeInfo(r *reader, id cluster.NodeID) NodeInfo {
	n := NodeInfo{ID: id}
	var configured float64 // node.processors, which may be a fraction where allocated_processors is rounded
	r.object(func(name string) {
		switch name {
		case "name":
			n.Name = r.text()
		case "host":
			n.Host = r.text()
		case "ip":
			n.IP = r.text()
		case "version":
			// A version we cannot read is one we do not know; Identify then goes by the others.
			n.Version, _ = cluster.ParseVersion(r.text())
		case "roles":
			n.Roles = r.texts()
			slices.Sort(n.Roles)
		case "attributes":
			n.Attributes = readTextMap(r)
		case "os":
			r.object(func(name string) {
				switch name {
				case "allocated_processors":
					n.Processors = r.float()
				case "available_processors":
					if available := r.float(); n.Processors == 0 {
						n.Processors = available
					}
				}
			})
		case "jvm":
			r.object(func(name string) {
				if name == "mem" {
					r.object(func(name string) {
						if name == "heap_max_in_bytes" {
							n.Heap = r.integer()
						}
					})
				}
			})
		case "settings":
			r.flatten("", func(key string, value any) {
				if text, ok := value.(string); ok && key == "node.processors" {
					configured, _ = strconv.ParseFloat(text, 64)
				}
			})
		}
	})
	if configured > 0 {
		n.Processors = configured
	}
	return n
}

func readTextMap(r *reader) map[string]string {
	texts := make(map[string]string)
	// Attribute names with dots are nested in some answers ("ml.machine_memory" in yml), flat in others.
	r.flatten("", func(key string, value any) {
		if text, ok := value.(string); ok {
			texts[key] = text
		}
	})
	return texts
}
