package realcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// formDeadline bounds the wait for a cluster to form: 3 to 35 s were seen, the latter on a machine busy with other
// things.
const formDeadline = 2 * time.Minute

// Options say what cluster to start. Only Product is needed.
type Options struct {
	Product Product

	Nodes int      // default 6; named n0, n1, ...
	Zones []string // node i has node.attr.zone Zones[i mod len], none where that is empty; default a, b, c

	// ProcessPerNode gives every node a process of its own, so that Kill, Freeze, Restart, Configure and Upgrade work.
	// Starting takes three to five times as long. Otherwise all nodes are in one JVM.
	ProcessPerNode bool

	// Eligible is how many of the first nodes may be elected master; the others hold data only. Default: all, or three
	// with ProcessPerNode, so that killing a later node never costs the quorum.
	Eligible int

	// Relayed puts a relay before the ports of every node, through which clients and the other nodes reach it, so that
	// HoldBack works.
	Relayed bool

	// Settings go into every node's yml file, flat keys. They win over the harness's own.
	Settings map[string]string
}

// Node is one node of a started cluster.
type Node struct {
	Name     string
	Zone     string
	Address  string // "http://127.0.0.1:PORT"; https where the product is secured
	Eligible bool   // may be elected master
}

// Cluster is a running cluster. Its methods may be called from several goroutines, except Stop.
type Cluster struct {
	Product Product
	Name    string // its cluster.name

	options Options
	base    string // folder with everything it writes
	release func() // lets go of the folder
	client  *http.Client
	nodes   []*node

	mu sync.Mutex // guards process and frozen of the nodes
}

type node struct {
	Node
	httpPort, transportPort int      // at which it listens; what it publishes is the port of a relay where there is one
	relays                  []*relay //
	home                    string
	settings                map[string]any // what its yml file says
	java                    []string       // command line up to the home folders, without heap size
	process                 *process
	frozen                  bool
}

// Start starts a cluster for one test, waits until it has formed, and stops it when the test ends. It fails the test
// where it cannot, and skips it, loudly, where the machine has no Java for the product.
func Start(tb testing.TB, options Options) *Cluster {
	tb.Helper()
	options.Product.SkipUnlessAvailable(tb)
	c, err := Launch(context.Background(), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Stop)
	return c
}

// Launch starts a cluster and waits until it has formed. The caller must Stop it. A cluster that does not form is
// stopped, and the error shows the end of its log.
func Launch(ctx context.Context, options Options) (*Cluster, error) {
	options = options.withDefaults()
	launcher, err := options.Product.prepare(ctx)
	if err != nil {
		return nil, err
	}
	// Between finding a port free and the server taking it another program may come first: then all new ports.
	for attempt := 1; ; attempt++ {
		c, err := launch(ctx, options, launcher)
		if err == nil || attempt == 3 || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			return c, err
		}
	}
}

func launch(ctx context.Context, options Options, l launcher, flags ...string) (c *Cluster, err error) {
	base, release, err := newBase(options.Product)
	if err != nil {
		return nil, err
	}
	c = &Cluster{
		Product: options.Product, Name: filepath.Base(base), options: options, base: base, release: release,
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s with %d nodes: %w\n%s", c.Product, options.Nodes, err, c.LogTail())
			c.Stop()
			c = nil
		}
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	c.client = &http.Client{Timeout: time.Minute, Transport: transport}
	if err := c.layOut(); err != nil {
		return c, err
	}
	if options.Product.secured {
		if transport.TLSClientConfig, err = c.secure(l.config); err != nil {
			return c, err
		}
	}
	for _, n := range c.nodes {
		n.java = l.command(options.Product, c.temporary(), flags)
	}
	if options.ProcessPerNode {
		for _, n := range c.nodes {
			if n.process, err = c.run(n); err != nil {
				return c, err
			}
		}
	} else {
		p, err := c.run(c.nodes...)
		if err != nil {
			return c, err
		}
		for _, n := range c.nodes {
			n.process = p
		}
	}
	return c, c.waitFormed(ctx)
}

func (o Options) withDefaults() Options {
	if o.Nodes == 0 {
		o.Nodes = 6
	}
	if len(o.Zones) == 0 {
		o.Zones = []string{"a", "b", "c"}
	}
	if o.Eligible == 0 {
		o.Eligible = o.Nodes
		if o.ProcessPerNode {
			o.Eligible = min(3, o.Nodes)
		}
	}
	return o
}

// layOut picks ports and writes every node's home folder.
func (c *Cluster) layOut() error {
	perNode := 2
	if c.options.Relayed {
		perNode = 4
	}
	ports, err := freePorts(perNode * c.options.Nodes)
	if err != nil {
		return err
	}
	if err := os.Mkdir(c.temporary(), 0o755); err != nil {
		return err
	}
	var seeds []string
	for i := range c.options.Nodes {
		n := &node{
			Node: Node{
				Name:     "n" + strconv.Itoa(i),
				Zone:     c.options.Zones[i%len(c.options.Zones)],
				Eligible: i < c.options.Eligible,
			},
			httpPort: ports[perNode*i], transportPort: ports[perNode*i+1],
		}
		n.home = filepath.Join(c.base, n.Name)
		c.nodes = append(c.nodes, n)
		public := ports[perNode*(i+1)-2:] // those by which others reach it
		n.Address = c.Product.scheme() + "://127.0.0.1:" + strconv.Itoa(public[0])
		seeds = append(seeds, "127.0.0.1:"+strconv.Itoa(public[1]))
		if c.options.Relayed {
			for k, own := range []int{n.httpPort, n.transportPort} {
				r, err := newRelay(public[k], own)
				if err != nil {
					return err
				}
				n.relays = append(n.relays, r)
			}
		}
	}
	for _, n := range c.nodes {
		for _, folder := range []string{"config", "modules", "plugins", "logs", "data"} {
			if err := os.MkdirAll(filepath.Join(n.home, folder), 0o755); err != nil {
				return err
			}
		}
		n.settings = c.nodeSettings(n, seeds)
		if err := c.writeSettings(n); err != nil {
			return err
		}
	}
	return nil
}

// writeSettings writes the node's yml file.
func (c *Cluster) writeSettings(n *node) error {
	text, err := json.MarshalIndent(n.settings, "", "  ") // JSON is YAML
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(n.home, "config", string(c.Product.Distribution)+".yml"), text, 0o644)
}

// temporary is the folder for what the servers write for a while.
func (c *Cluster) temporary() string { return filepath.Join(c.base, "tmp") }

// nodeSettings is what the node's yml file says, the caller's settings last.
func (c *Cluster) nodeSettings(n *node, seeds []string) map[string]any {
	master, masterRole := "cluster.initial_master_nodes", "master"
	if c.Product.Distribution == cluster.OpenSearch {
		master, masterRole = "cluster.initial_cluster_manager_nodes", "cluster_manager"
	}
	settings := map[string]any{
		"cluster.name": c.Name,
		"node.name":    n.Name,
		"path.data":    filepath.Join(n.home, "data"),
		"path.logs":    filepath.Join(n.home, "logs"),
		"path.repo":    filepath.Join(c.base, "repo"),

		master:                 c.nodes[0].Name,
		"discovery.seed_hosts": seeds,
		"network.host":         "127.0.0.1",
		"http.port":            n.httpPort,
		"transport.port":       n.transportPort,
		"node.processors":      1, // small thread pools: many nodes share few cores

		// All nodes report the machine's one disk. Bytes instead of percent, so that it may be as full as it likes;
		// not switched off, since the size collection that balancing by disk needs goes with it (Elasticsearch 8, 9).
		"cluster.routing.allocation.disk.watermark.low":         "30mb",
		"cluster.routing.allocation.disk.watermark.high":        "20mb",
		"cluster.routing.allocation.disk.watermark.flood_stage": "10mb",
		"cluster.info.update.interval":                          "10s", // the least that is accepted
	}
	if n.Zone != "" {
		settings["node.attr.zone"] = n.Zone
	}
	if c.Product.secured {
		maps.Copy(settings, securitySettings)
	}
	if len(n.relays) > 0 {
		settings["http.publish_port"], settings["transport.publish_port"] = n.relays[0].port(), n.relays[1].port()
	}
	if !n.Eligible {
		settings["node.roles"] = []string{"data"}
	} else if c.options.Eligible < len(c.nodes) {
		settings["node.roles"] = []string{masterRole, "data"}
	}
	for key, value := range c.options.Settings {
		settings[key] = value
	}
	return settings
}

// command is the java command line up to the home folders, without heap size.
func (l launcher) command(p Product, temporary string, flags []string) []string {
	command := []string{
		l.java,
		// Servers live for a minute or two here: the second compiler would cost more than it returns (17 s of processor
		// time instead of 10 for a start).
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData",
		"-Djava.awt.headless=true", "-Dlog4j2.disable.jmx=true", "-Djava.io.tmpdir=" + temporary,
	}
	if l.archive != "" {
		command = append(command, "-XX:SharedArchiveFile="+l.archive)
	}
	if p.minJava >= 21 {
		command = append(command, "--enable-native-access=ALL-UNNAMED", "--add-modules=jdk.incubator.vector")
	}
	command = append(command, flags...)
	return append(command, "-cp", l.classPath, "realcluster.Launcher")
}

// run starts a process with the given nodes in it.
func (c *Cluster) run(nodes ...*node) (*process, error) {
	heap := "-Xmx400m"
	if len(nodes) > 1 {
		heap = "-Xmx1500m"
	}
	java := nodes[0].java
	args := append([]string{heap}, java[1:]...)
	for _, n := range nodes {
		args = append(args, n.home)
	}
	log := "cluster.log"
	if len(nodes) == 1 {
		log = nodes[0].Name + ".log"
	}
	return startProcess(java[0], args, c.base, filepath.Join(c.base, log))
}

// Nodes lists the nodes, in the order of their numbers.
func (c *Cluster) Nodes() []Node {
	var nodes []Node
	for _, n := range c.nodes {
		nodes = append(nodes, n.Node)
	}
	return nodes
}

// Addresses are the base URLs of all nodes, for clients.
func (c *Cluster) Addresses() []string {
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, n.Address)
	}
	return addresses
}

// Stop ends every process of the cluster, waits until they are gone, and removes all that the cluster wrote.
func (c *Cluster) Stop() { c.stop(stopGrace) }

func (c *Cluster) stop(grace time.Duration) {
	c.client.CloseIdleConnections()
	var all sync.WaitGroup
	for _, p := range c.processes() {
		all.Go(func() {
			_ = p.signal(syscall.SIGCONT) // a frozen one cannot end; fails only where it has ended already
			p.stop(grace)
		})
	}
	all.Wait()
	for _, n := range c.nodes {
		for _, r := range n.relays {
			r.close()
		}
	}
	_ = os.RemoveAll(c.base) // what is left goes when the next cluster starts
	c.release()
}

// LogTail is the end of what the cluster's processes printed.
func (c *Cluster) LogTail() string {
	var tails []string
	for _, p := range c.processes() {
		tails = append(tails, p.logTail())
	}
	return strings.Join(tails, "\n")
}

// processes lists the processes that were started last for each node, each once.
func (c *Cluster) processes() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[*process]bool{}
	for _, n := range c.nodes {
		if n.process != nil {
			seen[n.process] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// errOneProcess is the answer to Kill, Freeze, Restart and the like of a node that has no process to itself.
var errOneProcess = errors.New("the nodes share one process: start the cluster with ProcessPerNode")

// Kill ends node i with SIGKILL and returns when its process is gone; the cluster notices a little later.
func (c *Cluster) Kill(i int) error {
	if !c.options.ProcessPerNode {
		return errOneProcess
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i].process.kill()
	c.nodes[i].frozen = false
	return nil
}

// Freeze halts node i with SIGSTOP: its connections stay open and nothing answers.
func (c *Cluster) Freeze(i int) error { return c.halt(i, syscall.SIGSTOP) }

// Thaw lets node i run on after Freeze.
func (c *Cluster) Thaw(i int) error { return c.halt(i, syscall.SIGCONT) }

func (c *Cluster) halt(i int, sig syscall.Signal) error {
	if !c.options.ProcessPerNode {
		return errOneProcess
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.nodes[i].process.signal(sig); err != nil {
		return fmt.Errorf("signal node %s: %w", c.nodes[i].Name, err)
	}
	c.nodes[i].frozen = sig == syscall.SIGSTOP
	return nil
}

// HoldBack lets what comes to node i from clients, and from other nodes, arrive so late each time; 0 ends that. What it answers is
// not held back, nor what it asks of others: requests to it take that much longer, and their timeouts tell who notices.
func (c *Cluster) HoldBack(i int, clients, nodes time.Duration) error {
	if !c.options.Relayed {
		return errors.New("nothing stands before the nodes: start the cluster with Relayed")
	}
	c.nodes[i].relays[0].late.Store(int64(clients))
	c.nodes[i].relays[1].late.Store(int64(nodes))
	return nil
}

// Restart starts node i on its old data, after stopping it where it runs, and waits until the cluster has it back. It
// does not wait for its copies: see WaitGreen.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	if err := c.StartAgain(i); err != nil {
		return err
	}
	return c.waitFormed(ctx)
}

// StartAgain is Restart without waiting for anything.
func (c *Cluster) StartAgain(i int) error {
	if !c.options.ProcessPerNode {
		return errOneProcess
	}
	n := c.nodes[i]
	if n.frozen {
		if err := c.Thaw(i); err != nil {
			return err
		}
	}
	n.process.stop(stopGrace)
	p, err := c.run(n)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.process = p
	return nil
}

// Configure changes settings of node i's yml file, flat keys; nil removes one. Then it restarts the node.
func (c *Cluster) Configure(ctx context.Context, i int, settings map[string]any) error {
	if !c.options.ProcessPerNode {
		return errOneProcess
	}
	n := c.nodes[i]
	for key, value := range settings {
		if n.settings[key] = value; value == nil {
			delete(n.settings, key)
		}
	}
	if err := c.writeSettings(n); err != nil {
		return err
	}
	return c.Restart(ctx, i)
}

// Upgrade restarts node i as another version of the product, on its old data and settings, as in a rolling upgrade. The version
// must be one that the rest of the cluster lets join. Product stays what the cluster was started as.
func (c *Cluster) Upgrade(ctx context.Context, i int, p Product) error {
	if !c.options.ProcessPerNode {
		return errOneProcess
	}
	l, err := p.prepare(ctx)
	if err != nil {
		return err
	}
	c.nodes[i].java = l.command(p, c.temporary(), nil)
	return c.Restart(ctx, i)
}

// living lists the nodes whose process runs and is not frozen.
func (c *Cluster) living() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	var living []*node
	for _, n := range c.nodes {
		if n.process != nil && n.process.running() && !n.frozen {
			living = append(living, n)
		}
	}
	return living
}

// waitFormed waits until every node with a running process answers over HTTP and sees all the others, and the cluster
// takes requests.
func (c *Cluster) waitFormed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, formDeadline)
	defer cancel()
	want := len(c.living())
	pending := c.living()
	return poll(ctx, func() error {
		if len(c.living()) < want {
			return &permanent{errors.New("a server process has ended")}
		}
		for len(pending) > 0 {
			var health struct {
				Nodes int `json:"number_of_nodes"`
			}
			if err := c.send(ctx, pending[0], http.MethodGet, "/_cluster/health", nil, &health); err != nil {
				return err
			}
			if health.Nodes != want {
				return fmt.Errorf("node %s sees %d nodes, %d are running", pending[0].Name, health.Nodes, want)
			}
			pending = pending[1:]
		}
		// A new cluster first reads what its nodes have on disk, and refuses most requests until then.
		var state struct {
			Blocks struct {
				Global map[string]struct{ Description string }
			}
		}
		if err := c.Get(ctx, "/_cluster/state/blocks", &state); err != nil {
			return err
		}
		for _, block := range state.Blocks.Global {
			return errors.New(block.Description)
		}
		return nil
	})
}
