package realcluster

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestRelay: what goes to the node is late when it is told to be and in order all the same, what comes back is not, and an end
// on either side is one on the other.
func TestRelay(t *testing.T) {
	node, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	r, err := newRelay(0, node.Addr().(*net.TCPAddr).Port)
	if err != nil {
		t.Fatal(err)
	}

	pair := func() (client, server net.Conn) {
		t.Helper()
		client, err := net.Dial("tcp", r.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if server, err = node.Accept(); err != nil {
			t.Fatal(err)
		}
		return client, server
	}
	send := func(from, to net.Conn, text string) time.Duration {
		t.Helper()
		began := time.Now()
		if _, err := io.WriteString(from, text); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, len(text))
		if _, err := io.ReadFull(to, buffer); err != nil || string(buffer) != text {
			t.Fatalf("%q, %v", buffer, err)
		}
		return time.Since(began)
	}
	client, server := pair()
	const late = 300 * time.Millisecond
	send(client, server, "at once")
	r.late.Store(int64(late))
	if took := send(client, server, "late"); took < late {
		t.Errorf("it took %s", took)
	}
	if _, err := io.WriteString(client, "first, "); err != nil {
		t.Fatal(err)
	}
	r.late.Store(0)
	if _, err := io.WriteString(client, "second"); err != nil {
		t.Fatal(err)
	}
	both := make([]byte, len("first, second"))
	if _, err := io.ReadFull(server, both); err != nil || string(both) != "first, second" {
		t.Errorf("%q, %v", both, err)
	}
	ended := func(what string, c net.Conn) {
		t.Helper()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s goes on", what)
		}
	}
	client.Close()
	ended("the node's side", server)
	client, server = pair()
	server.Close()
	ended("the client's side", client)
	client, server = pair()
	r.late.Store(int64(time.Hour))
	if _, err := io.WriteString(client, "in an hour"); err != nil {
		t.Fatal(err)
	}
	send(server, client, "back")
	r.close()
	ended("a client's side after the relay", client)
	ended("a node's side after the relay", server)
}
