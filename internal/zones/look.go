package zones

import (
	"context"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// look asks every node for itself and one node of each zone for what it knows. A quick one only looks whether new weights
// have arrived.
func (c *Controller) look(ctx context.Context, config Config, quick bool) *View {
	v := &View{At: c.Now(), Product: c.Identity.Product, Settings: c.settings}
	if !quick && v.At.Sub(c.roster) >= rosterEvery {
		c.readRoster(ctx, config)
	}
	if !quick {
		v.Probes = c.probe(ctx)
		c.probes = v.Probes
	} else {
		v.Probes = c.probes
	}
	c.states(ctx, v)
	if v.State == nil {
		return v
	}
	if c.strangers(config, v) && !quick {
		c.readRoster(ctx, config)
	}
	if !quick {
		c.looks++
		c.aside(ctx, config, v)
	}
	if change := c.state.Change; c.state.Phase == Verifying && change != nil && change.Seen.IsZero() {
		c.readBack(ctx, config, v, change)
	}
	return v
}

// each runs do for every member that has a client, side by side, each with its own deadline.
func (c *Controller) each(ctx context.Context, members []Member, within time.Duration, do func(ctx context.Context, m Member, client *es.Client)) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, sideBySide)
	for _, m := range members {
		client := c.clients[m.Name]
		if client == nil {
			continue
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			limited, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			do(limited, m, client)
		})
	}
	wait.Wait()
}

func (c *Controller) members() []Member {
	members := make([]Member, 0, len(c.state.Roster))
	for _, name := range sortedNames(c.state.Roster) {
		members = append(members, c.state.Roster[name])
	}
	return members
}

// probe asks each node at its own address whether it is there. Any answer will do: a node that was taken out has no leader
// and says so. One that has never answered there by its id is not judged by it: its address may not be meant for us.
func (c *Controller) probe(ctx context.Context) map[string]bool {
	var mu sync.Mutex
	answered := map[string]bool{}
	c.each(ctx, c.members(), readWithin, func(ctx context.Context, m Member, client *es.Client) {
		if !m.Reached { // its address may lead to somebody else: a proxy, or a machine of our own network
			if id, err := client.Self(ctx); err == nil && id == m.ID {
				mu.Lock()
				defer mu.Unlock()
				answered[m.Name] = true
			}
			return
		}
		err := client.Read(ctx, "/", nil, func(body io.Reader) error {
			_, err := io.Copy(io.Discard, body)
			return err
		})
		mu.Lock()
		defer mu.Unlock()
		answered[m.Name] = es.Answered(err)
	})
	for name, ok := range answered {
		if m := c.state.Roster[name]; ok && !m.Reached {
			m.Reached = true
			c.state.Roster[name] = m
		}
	}
	return answered
}

// states asks one node after the other of each zone for what it has applied, all zones side by side, and takes the newest
// for the cluster's.
func (c *Controller) states(ctx context.Context, v *View) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	take := func(state *es.ZoneState) {
		mu.Lock()
		defer mu.Unlock()
		// A node outside of the cluster goes on knowing what it knew: it has no leader, and older news.
		newer := v.State == nil || state.Version > v.State.Version
		if v.State != nil && (state.Leader == "") != (v.State.Leader == "") {
			newer = v.State.Leader == ""
		}
		if state.ClusterUUID == c.Identity.UUID && newer {
			v.State = state
		}
	}
	for _, zone := range c.state.Roster.zones() {
		wait.Go(func() {
			tries := 0
			for _, m := range c.state.Roster.of(zone) {
				client := c.clients[m.Name]
				if client == nil || !v.Probes[m.Name] || tries == 2 {
					continue
				}
				tries++
				limited, cancel := context.WithTimeout(ctx, readWithin)
				state, err := client.ZoneState(limited, true)
				cancel()
				if err == nil {
					take(state)
					return
				}
			}
		})
	}
	wait.Wait()
	if v.State == nil { // no node's own address can be reached, or ever could
		limited, cancel := context.WithTimeout(ctx, 2*readWithin)
		defer cancel()
		if state, err := c.Client.ZoneState(limited, false); err == nil {
			take(state)
		}
	}
}

// readBack asks every node of the cluster which weights it has applied. A leader applies what it publishes last: when
// every other node has it, or it no longer waits for one that hangs.
func (c *Controller) readBack(ctx context.Context, config Config, v *View, change *Change) {
	if !applied(config, change, v.weights()) {
		return
	}
	present := v.present()
	members := slices.DeleteFunc(c.members(), func(m Member) bool { return !present[m.Name] || !v.Probes[m.Name] })
	var mu sync.Mutex
	c.each(ctx, members, readWithin, func(ctx context.Context, m Member, client *es.Client) {
		weights, version, err := client.AppliedWeights(ctx, config.Attribute)
		if err == nil && (version < change.Version+1 || version == change.Version+1 && !maps.Equal(weights, change.Weights)) {
			mu.Lock()
			defer mu.Unlock()
			v.Behind = append(v.Behind, m.Name)
		}
	})
	slices.Sort(v.Behind)
}

// strangers notes who is there, and tells whether somebody is who is not on the roster.
func (c *Controller) strangers(config Config, v *View) bool {
	strange := false
	for _, n := range v.State.Nodes {
		m, known := c.state.Roster[n.Name]
		if !known || m.ID != n.ID || m.Zone != n.Attributes[config.Attribute] {
			strange = true
			continue
		}
		m.LastSeen = v.At
		c.state.Roster[n.Name] = m
	}
	return strange
}

// readRoster takes the cluster's nodes in. Those that have been gone for long from a zone that is well without them are
// no longer expected.
func (c *Controller) readRoster(ctx context.Context, config Config) {
	limited, cancel := context.WithTimeout(ctx, 2*readWithin)
	defer cancel()
	nodes, err := c.ask().Roster(limited)
	if err != nil || len(nodes) == 0 {
		return // what we know goes on holding
	}
	now := c.Now()
	c.roster = now
	roster := maps.Clone(c.state.Roster)
	for name, m := range roster {
		left := c.state.Leaving != nil && c.state.Leaving.Zone == m.Zone
		if !left && now.Sub(m.LastSeen) > forgetAfter && c.health.Zones[m.Zone].Fraction <= zoneFraction {
			delete(roster, name)
		}
	}
	scheme, direct := c.direct(limited)
	for _, n := range nodes {
		m := Member{
			ID: n.ID, Name: n.Name, Zone: n.Attributes[config.Attribute], Processors: n.Processors, Heap: n.Heap, LastSeen: now,
			Data: hasData(n.Roles), Eligible: slices.Contains(n.Roles, "master") || slices.Contains(n.Roles, "cluster_manager"),
		}
		if n.Address != "" {
			m.Address = scheme + n.Address
		}
		if address := direct[n.ID]; address != "" {
			m.Address = address
		}
		if before, known := roster[n.Name]; known && before.Address == m.Address {
			m.Reached = before.Reached
		}
		roster[n.Name] = m
	}
	c.state.Roster = roster
	for name, m := range roster {
		if m.Address == "" || c.at[name] == m.Address {
			continue
		}
		client, err := c.Client.At(m.Address)
		if err != nil {
			continue // an address that is none is one we cannot ask
		}
		if old := c.clients[name]; old != nil {
			_ = old.Close()
		}
		c.clients[name], c.at[name] = client, m.Address
	}
}

func hasData(roles []string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return role == "data" || strings.HasPrefix(role, "data_") })
}

// direct finds out which node answers at each configured address, so that a cluster whose published addresses cannot be
// reached from here can be asked node by node all the same.
func (c *Controller) direct(ctx context.Context) (scheme string, addresses map[cluster.NodeID]string) {
	scheme, addresses = "http://", map[cluster.NodeID]string{}
	for _, address := range c.Addresses {
		if at, err := url.Parse(address); err == nil && at.Scheme != "" {
			scheme = at.Scheme + "://"
		}
		client, err := c.Client.At(address)
		if err != nil {
			continue
		}
		if id, err := client.Self(ctx); err == nil {
			if _, twice := addresses[id]; !twice {
				addresses[id] = address
			}
		}
		_ = client.Close()
	}
	if len(c.Addresses) == 1 {
		clear(addresses) // it may be a load balancer, behind which the next request meets another node
	}
	return scheme, addresses
}

// ask is a client of some node that is well, of another in the next rounds: a zone that is late for the other nodes alone is
// not late for those who ask it about them.
func (c *Controller) ask() *es.Client {
	members := c.members()
	for i := range members {
		m := members[(c.looks/loadsEvery+i)%len(members)]
		if client := c.clients[m.Name]; client != nil && c.probes[m.Name] && c.health.Zones[m.Zone].Healthy() && (c.state.Leaving == nil || c.state.Leaving.Zone != m.Zone) {
			return client
		}
	}
	return c.Client
}

// aside reads what helps to judge: settings, copies, loads. Each may be missing.
func (c *Controller) aside(ctx context.Context, config Config, v *View) {
	client := c.ask()
	var wait sync.WaitGroup
	limited, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	wait.Go(func() {
		if settings := c.readSettings(limited, client, config); settings != nil {
			v.Settings = settings
		}
	})
	ill := slices.ContainsFunc(slices.Collect(maps.Values(c.health.Zones)), func(h Health) bool { return !h.Healthy() })
	if ill || c.looks%loadsEvery == 0 || c.state.Phase == Verifying || c.state.Write == Draining {
		wait.Go(func() { v.Loads, v.Silent = readLoads(limited, client) })
	}
	if v.Product.Distribution == cluster.OpenSearch {
		wait.Go(func() {
			if copies, _, waits, err := client.ZoneHealth(limited, config.Attribute); err == nil {
				v.Copies, v.TaskWait = copies, waits
			}
		})
	}
	if config.Canary != "" {
		wait.Go(func() { v.Canary = c.canary(limited, client, config, v) })
	}
	wait.Wait()
	if c.settings == nil && v.Settings != nil {
		c.missOrder(v.Settings.Orders.Order)
	}
	c.settings = v.Settings
}

// canary sends a search to one copy of the canary index in each zone, and a write that waits for all of them. A zone
// without a copy is not judged by it; the write stands under "".
func (c *Controller) canary(ctx context.Context, client *es.Client, config Config, v *View) map[string]Canary {
	holders, err := client.Holders(ctx, config.Canary)
	if err != nil {
		return nil // whoever was asked is judged by other signals
	}
	found := map[string]Canary{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	try := func(zone string, do func() error) {
		wait.Go(func() {
			began := time.Now()
			err := do()
			mu.Lock()
			defer mu.Unlock()
			found[zone] = Canary{Took: time.Since(began), Failed: err != nil}
		})
	}
	for _, zone := range c.state.Roster.zones() {
		if change := c.state.Change; change != nil && change.Kind == Rotate && change.Zone == zone {
			continue // it is being looked at whether anybody still searches there: we would be taken for that
		}
		for _, m := range c.state.Roster.data(zone) {
			if at := c.clients[m.Name]; at != nil && holders[m.ID] && m.Reached {
				try(zone, func() error { return at.SearchLocally(ctx, config.Canary) })
				break
			}
		}
	}
	if config.Mode == Act { // it is a change, if only of a document of ours
		try("", func() error {
			return client.WriteEverywhere(ctx, config.Canary, "shardonnay", map[string]any{"at": v.At.UTC().Format(time.RFC3339)})
		})
	}
	wait.Wait()
	return found
}

// readLoads gives what each node does by its id, and who did not say; nil where nobody did.
func readLoads(ctx context.Context, client *es.Client) (map[cluster.NodeID]es.ZoneLoad, map[cluster.NodeID]bool) {
	answers, mute, err := client.ZoneLoads(ctx)
	if err != nil {
		return nil, nil
	}
	loads, silent := make(map[cluster.NodeID]es.ZoneLoad, len(answers)), make(map[cluster.NodeID]bool, len(mute))
	for _, l := range answers {
		loads[l.Node] = l
	}
	for _, id := range mute {
		silent[id] = true
	}
	return loads, silent
}

// missOrder lets an order that was there before this instance looked for the first time pass: it was given to another one,
// which may have carried it out.
func (c *Controller) missOrder(order *Order) {
	if order != nil && order.ID != c.state.Handled {
		c.state.Handled = order.ID
		c.handled = "not carried out by this instance, which began later; look at the zones, and give it again if it is still wanted"
	}
}

// readSettings reads the cluster's settings about zones from what a node has applied.
func (c *Controller) readSettings(ctx context.Context, client *es.Client, config Config) *Settings {
	request := es.SettingsRequest(c.Identity.Product)
	request.Query.Set("local", "true")
	var raw es.RawSettings
	err := client.Ask(ctx, request, func(body io.Reader) (err error) {
		raw, err = es.DecodeSettings(body)
		return err
	})
	if err != nil {
		return nil
	}
	parsed, err := raw.Cluster()
	if err != nil {
		return nil
	}
	orders, err := ReadOrders(raw.Persistent)
	if err != nil {
		c.pending(Note{Event: "broken_order", Text: err.Error()})
	}
	ignore, _ := raw.Effective("cluster.routing.ignore_weighted_routing")
	return &Settings{
		Aware: parsed.AwarenessAttributes, Forced: parsed.ForcedAwareness[config.Attribute], Excluded: parsed.Filter.Exclude[config.Attribute], IgnoreWeights: ignore == "true",
		Low: parsed.Low, Orders: orders,
	}
}

// routing reads where every copy is, from what a node has applied.
func (c *Controller) routing(ctx context.Context, v *View) *Routing {
	ctx, cancel := context.WithTimeout(ctx, guardWithin)
	defer cancel()
	for _, client := range c.reachable(v) {
		request := es.RoutingRequest(c.Identity.Product)
		request.Query.Set("local", "true")
		var r Routing
		err := client.Ask(ctx, request, func(body io.Reader) (err error) {
			r.Routing, err = es.DecodeRouting(body)
			return err
		})
		if err != nil {
			continue
		}
		if r.InSync, err = client.InSync(ctx); err != nil {
			continue
		}
		// That one is asked of the leader, who may be the one that hangs; it only warns.
		limited, cancel := context.WithTimeout(ctx, readWithin)
		running, err := client.RunningSnapshots(limited)
		cancel()
		if err == nil {
			r.Snapshots = len(running)
		}
		if v.Loads == nil {
			v.Loads, v.Silent = readLoads(ctx, client) // the disks, for a guard
		}
		slices.SortStableFunc(r.Copies, func(a, b es.RoutingCopy) int {
			if a.Index != b.Index {
				return strings.Compare(a.Index, b.Index)
			}
			return a.Shard - b.Shard
		})
		return &r
	}
	return nil
}
