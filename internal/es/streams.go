package es

import (
	"io"
	"net/url"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Stream is a data stream and its backing indices, oldest first: the last one takes the writes.
type Stream struct {
	Name     string
	Indices  []string
	Failures []string // the failure store's, in the same order
}

// StreamsRequest asks for all data streams. Elasticsearch leaves hidden ones out unless told otherwise; OpenSearch has
// no such parameter and refuses it.
func StreamsRequest(product cluster.Product) Request {
	if product.Distribution == cluster.OpenSearch {
		return Request{File: "data_stream.json", Path: "/_data_stream", Query: url.Values{
			"filter_path": {"data_streams.name,data_streams.indices.index_name"},
		}}
	}
	return Request{File: "data_stream.json", Path: "/_data_stream", Query: url.Values{
		"expand_wildcards": {"all"},
		"filter_path":      {"data_streams.name,data_streams.indices.index_name,data_streams.failure_store.indices.index_name"},
	}}
}

// DecodeStreams reads the answer, in its order.
func DecodeStreams(from io.Reader) ([]Stream, error) {
	var streams []Stream
	r := newReader(from)
	names := func() (names []string) {
		r.array(func() {
			r.object(func(name string) {
				if name == "index_name" {
					names = append(names, r.text())
				}
			})
		})
		return names
	}
	r.object(func(name string) {
		if name != "data_streams" {
			return
		}
		r.array(func() {
			var s Stream
			r.object(func(name string) {
				switch name {
				case "name":
					s.Name = r.text()
				case "indices":
					s.Indices = names()
				case "failure_store":
					r.object(func(name string) {
						if name == "indices" {
							s.Failures = names()
						}
					})
				}
			})
			streams = append(streams, s)
		})
	})
	return streams, r.finish()
}

// AliasesRequest asks which aliases have a write index.
func AliasesRequest() Request {
	return Request{File: "alias.json", Path: "/_alias", Query: url.Values{"filter_path": {"*.aliases.*.is_write_index"}}}
}

// DecodeWriteIndices reads the answer: the indices that some alias writes to, where the alias says so. An alias to one
// index alone writes to it without saying so, and is no rollover.
func DecodeWriteIndices(from io.Reader) (map[string]bool, error) {
	writes := map[string]bool{}
	r := newReader(from)
	r.object(func(index string) {
		if r.kind() != '{' {
			return
		}
		r.object(func(name string) {
			if name != "aliases" {
				return
			}
			r.object(func(string) {
				r.object(func(name string) {
					if name == "is_write_index" && r.boolean() {
						writes[index] = true
					}
				})
			})
		})
	})
	return writes, r.finish()
}
