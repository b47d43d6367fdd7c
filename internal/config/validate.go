package config

import (
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// secretKeys are what looks like a key of the file and must not be one, with the key that takes its place.
var secretKeys = map[string]string{
	"connection.password": "connection.password_file",
	"connection.api_key":  "connection.api_key_file",
	"http.token":          "http.token_file",
}

// validate notes every value that is impossible, alone or beside another.
func (l *loader) validate(c *Config) {
	l.validateConnection(&c.Connection)
	l.oneOf("mode", string(c.Mode), string(plan.Observe), string(plan.DryRun), string(plan.Act))

	l.between("cycle.interval", c.Cycle.Interval, time.Second, 24*time.Hour)
	l.ratio("cycle.jitter", c.Cycle.Jitter, 0, 0.5)
	l.between("cycle.time_limit", c.Cycle.TimeLimit, time.Second, time.Hour)
	l.between("cycle.deadline", c.Cycle.Deadline, time.Second, 24*time.Hour)

	l.between("sampling.window", c.Sampling.Window, time.Second, time.Hour)
	l.between("sampling.half_life", c.Sampling.HalfLife, time.Second, 30*24*time.Hour)
	l.number("sampling.stats_batch", c.Sampling.StatsBatch, 1, 500)
	l.between("sampling.settle", c.Sampling.Settle, time.Second, 24*time.Hour)
	l.number("sampling.max_state_moves", c.Sampling.MaxStateMoves, 1, 1_000_000)

	l.validateDimensions(c.Balance.Dimensions)
	for _, rule := range c.Balance.Capacity {
		if !slices.ContainsFunc(c.Balance.Dimensions, func(d Dimension) bool { return d.Name == rule.Dimension }) {
			l.fault("balance.capacity", "%s is about a dimension that is not among balance.dimensions; name one that is", rule)
		}
	}
	l.ratio("balance.tolerance", c.Balance.Tolerance, 0, 1)
	l.ratio("balance.move_cost", c.Balance.MoveCost, 0, 1000)
	l.ratio("balance.write_factor", c.Balance.WriteFactor, 1, 100)
	l.ratio("balance.spread_weight", c.Balance.SpreadWeight, 0, 1000)
	l.ratio("balance.growth_share", c.Balance.GrowthShare, 0, 0.5)
	l.ratio("pin.write_share", c.Pin.WriteShare, 0, 1)

	l.validateRegions(&c.Regions)

	l.number("limits.max_moves_per_cycle", c.Limits.MaxMovesPerCycle, 0, 1_000_000)
	l.number("limits.in_flight", c.Limits.InFlight, 0, 1000)
	l.number("limits.node_incoming", c.Limits.NodeIncoming, 0, 100)
	l.number("limits.node_outgoing", c.Limits.NodeOutgoing, 0, 100)
	l.number("limits.per_index", c.Limits.PerIndex, 0, 1000)
	l.number("limits.per_zone_pair", c.Limits.PerZonePair, 0, 1000)
	l.between("limits.cool_down", c.Limits.CoolDown, 0, 30*24*time.Hour)

	l.oneOf("stop.status", c.Stop.Status, "green", "yellow")
	l.ratio("stop.cpu", c.Stop.CPU, 0, 1)
	l.ratio("stop.rejections", c.Stop.Rejections, 0, 1_000_000)
	l.number("stop.pending_tasks", c.Stop.PendingTasks, 0, 1_000_000)
	l.between("stop.task_wait", c.Stop.TaskWait, 0, time.Hour)
	l.between("stop.node_settle", c.Stop.NodeSettle, 0, 24*time.Hour)
	l.number("stop.storm", c.Stop.Storm, 0, 1_000_000)
	l.between("stop.calm", c.Stop.Calm, 0, 24*time.Hour)
	l.number("stop.undone_moves", c.Stop.UndoneMoves, 0, 1000)

	if holder := c.Ownership.Holder; strings.ContainsFunc(holder, func(r rune) bool { return r <= ' ' || r > '~' }) || len(holder) > 200 {
		l.fault("ownership.holder", "%q is no name; use at most 200 letters, digits and signs without spaces", holder)
	}
	l.between("ownership.lease", c.Ownership.Lease, 5*time.Second, time.Hour)
	if c.Ownership.Renew < time.Second || 2*c.Ownership.Renew > c.Ownership.Lease {
		l.fault("ownership.renew", "%s is impossible; from 1s to half of ownership.lease (%s), so that one failed renewal loses nothing",
			duration(c.Ownership.Renew), duration(c.Ownership.Lease))
	}

	l.validateElection(c)

	l.validateZones(&c.Zones)

	l.between("solver.time_limit", c.Solver.TimeLimit, 100*time.Millisecond, time.Hour)
	if c.Solver.TimeLimit > c.Cycle.TimeLimit {
		l.fault("solver.time_limit", "%s is longer than the cycle has (cycle.time_limit, %s); make it shorter",
			duration(c.Solver.TimeLimit), duration(c.Cycle.TimeLimit))
	}
	l.number("solver.work_limit", c.Solver.WorkLimit, 0, 1<<53)
	l.number("solver.seed", c.Solver.Seed, 0, 1<<53)
	l.ratio("solver.target_gap", c.Solver.TargetGap, 0, 1)
	l.number("solver.workers", c.Solver.Workers, 0, 1024)

	if c.HTTP.Listen != "" {
		if _, port, err := net.SplitHostPort(c.HTTP.Listen); err != nil || port == "" {
			l.fault("http.listen", "%q is not an address with a port; write for example 127.0.0.1:9750, or :9750 for all interfaces", c.HTTP.Listen)
		}
	}
	l.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	l.oneOf("log.format", c.Log.Format, "console", "json")
}

func (l *loader) validateConnection(c *Connection) {
	if len(c.Addresses) == 0 {
		l.fault("connection.addresses", "no address; give at least one, for example https://node-1:9200")
	}
	for _, address := range c.Addresses {
		u, err := url.Parse(address)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			l.fault("connection.addresses", "%q is not a URL; write for example https://node-1:9200", withoutUser(address))
		case u.User != nil:
			l.fault("connection.addresses", "%q carries a user name; use connection.username and connection.password_file", withoutUser(address))
		case u.RawQuery != "" || u.Fragment != "":
			l.fault("connection.addresses", "%q has more than scheme, host, port and path; leave the rest out", address)
		}
	}
	l.between("connection.timeout", c.Timeout, 100*time.Millisecond, 10*time.Minute)
	l.number("connection.read_retries", c.ReadRetries, 0, 10)
	if (c.ClientCertFile == "") != (c.ClientKeyFile == "") {
		key := "connection.client_cert_file"
		if c.ClientKeyFile != "" {
			key = "connection.client_key_file"
		}
		l.fault(key, "given without its other half; a client certificate takes both client_cert_file and client_key_file")
	}
	if c.InsecureSkipVerify && c.CAFile != "" {
		l.fault("connection.insecure_skip_verify", "true makes connection.ca_file pointless; give one of them")
	}
	if c.AWS.Region == "" {
		return
	}
	if c.AWS.Service == "" {
		l.fault("connection.aws.service", "empty; write es, the name requests to Amazon OpenSearch Service are signed for")
	}
	if c.Username != "" || c.PasswordFile != "" || c.APIKeyFile != "" {
		l.fault("connection.aws.region", "signed requests carry no other credentials; leave out username, password and API key")
	}
}

func (l *loader) validateRegions(r *Regions) {
	l.oneOf("regions.remainder", r.Remainder, string(model.RemainderMain), string(model.RemainderSpread))
	l.ratio("regions.overload", r.Overload, 0, 100)
	l.between("regions.cool_down", r.CoolDown, 0, 30*24*time.Hour)
	l.ratio("regions.wan_factor", r.WANFactor, 1, 1000)
	l.number("regions.wan_every", r.WANEvery, 1, 10_000)
	l.number("regions.wan_in_flight", r.WANInFlight, 0, 1000)
	if r.Attribute == "" {
		for _, key := range []struct {
			name  string
			given int
		}{{"regions.layout", len(r.Layout)}, {"regions.home", len(r.Home)}} {
			if key.given > 0 {
				l.fault(key.name, "given without regions.attribute; name the node attribute that holds the region, or leave both out")
			}
		}
		return
	}
	for _, other := range []struct{ key, attribute string }{
		{"regions.zone_attribute", r.ZoneAttribute}, {"regions.host_attribute", r.HostAttribute},
	} {
		if other.attribute == r.Attribute {
			l.fault(other.key, "%q is the attribute of the region already; zones and hosts are told apart by others", other.attribute)
		}
	}
}

// kubernetesName is what the API server takes as a name: small letters, digits, dashes and dots.
var kubernetesName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

func (l *loader) validateElection(c *Config) {
	for _, named := range []struct{ key, name string }{
		{"election.lease", c.Election.Lease}, {"election.namespace", c.Election.Namespace},
	} {
		if named.name != "" && !kubernetesName.MatchString(named.name) {
			l.fault(named.key, "%q is no name in Kubernetes; use small letters, digits and dashes", named.name)
		}
	}
	if c.Election.Lease != "" {
		if c.Ownership.Holder != defaultHolder() {
			l.fault("ownership.holder", "%q would be the name of every instance, and each be elected; leave it out beside election.lease", c.Ownership.Holder)
		}
		return
	}
	for _, given := range []struct{ key, value string }{
		{"election.namespace", c.Election.Namespace}, {"election.kubeconfig", c.Election.Kubeconfig},
	} {
		if given.value != "" {
			l.fault(given.key, "given without election.lease; name the Lease, or leave both out")
		}
	}
}

func (l *loader) validateZones(c *Zones) {
	l.oneOf("zones.mode", c.Mode, "off", "observe", "dry-run", "act")
	if c.Attribute == "" || strings.ContainsFunc(c.Attribute, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(",/*", r) }) {
		l.fault("zones.attribute", "%q is no awareness attribute; write the name behind node.attr., for example zone", c.Attribute)
	}
	l.between("zones.rotation", c.Rotation, 0, 7*24*time.Hour)
	l.between("zones.round", c.Round, time.Second, time.Minute)
	if c.Rotation > 0 && c.Rotation < 4*c.Round && !l.has("zones.round") { // a change is seen through in two or three looks
		l.fault("zones.rotation", "%s is shorter than four rounds (%s), in which one change could not be seen through; make it longer, or 0s for none",
			duration(c.Rotation), duration(4*c.Round))
	}
	l.between("zones.clear_after", c.ClearAfter, time.Second, 24*time.Hour)
	l.between("zones.hold_for", c.HoldFor, time.Second, 7*24*time.Hour)
	l.oneOf("zones.write_failover", c.WriteFailover, "off", "approve", "auto")
	l.between("zones.drain", c.Drain, 0, time.Hour)
	l.oneOf("zones.drain_by", c.DrainBy, "controller", "server")
	if c.EarlyDrain && c.DrainBy == "server" {
		l.fault("zones.early_drain", "true beside zones.drain_by server, whose timer nobody can cut short; give one of them")
	}
	l.between("zones.stable_for", c.StableFor, 0, 24*time.Hour)
	l.ratio("zones.max_load_after_loss", c.MaxLoadAfterLoss, 0, 1)
	if strings.ContainsAny(c.CanaryIndex, " ,*/") {
		l.fault("zones.canary_index", "%q is not the name of one index; name one", c.CanaryIndex)
	}
}

// withoutUser cuts what may be a password out of an address.
func withoutUser(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		scheme, rest = "", address
	} else {
		scheme += "://"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return scheme + rest
}

func (l *loader) validateDimensions(dimensions []Dimension) {
	if len(dimensions) == 0 {
		l.fault("balance.dimensions", "none; give at least one, for example [search=1, index=1, disk=1]")
	}
	var names []string
	for _, m := range measurable {
		names = append(names, m.Name)
	}
	positive := false
	for i, d := range dimensions {
		if !slices.Contains(names, d.Name) {
			l.fault("balance.dimensions", "%q is no dimension; one of %s", d.Name, strings.Join(names, ", "))
		}
		if slices.ContainsFunc(dimensions[:i], func(e Dimension) bool { return e.Name == d.Name }) {
			l.fault("balance.dimensions", "%q is given twice; keep one", d.Name)
		}
		if !(d.Weight >= 0 && d.Weight <= 1000) {
			l.fault("balance.dimensions", "%s has an impossible weight; from 0 (measured only) to 1000", d)
		}
		positive = positive || d.Weight > 0
	}
	if len(dimensions) > 0 && !positive {
		l.fault("balance.dimensions", "every weight is 0, so nothing would be balanced; give one of them a positive weight")
	}
}

func (l *loader) between(key string, value, least, most time.Duration) {
	if value < least || value > most {
		l.fault(key, "%s is impossible; from %s to %s", duration(value), duration(least), duration(most))
	}
}

func (l *loader) number(key string, value, least, most int) {
	if value < least || value > most {
		l.fault(key, "%d is impossible; from %d to %d", value, least, most)
	}
}

func (l *loader) ratio(key string, value, least, most float64) {
	if !(value >= least && value <= most) {
		l.fault(key, "%g is impossible; from %g to %g", value, least, most)
	}
}

func (l *loader) oneOf(key, value string, choices ...string) {
	if !slices.Contains(choices, value) {
		l.fault(key, "%q is impossible; %s", value, strings.Join(choices[:len(choices)-1], ", ")+" or "+choices[len(choices)-1])
	}
}

// readSecrets reads the secret files. The environment wins over a file, as with every key.
func (l *loader) readSecrets(c *Config) {
	read := func(key, file string) Secret {
		if value := os.Getenv(envName(key)); value != "" {
			return Secret(value)
		}
		if file == "" {
			return ""
		}
		content, err := os.ReadFile(file)
		if err != nil {
			l.fault(key+"_file", "%v. Make the file exist and readable for the user the daemon runs as", err)
			return ""
		}
		value := strings.TrimSpace(string(content))
		if value == "" {
			l.fault(key+"_file", "%s is empty; write the secret into it", file)
		}
		return Secret(value)
	}
	connection := &c.Connection
	connection.Password = read("connection.password", connection.PasswordFile)
	connection.APIKey = read("connection.api_key", connection.APIKeyFile)
	c.HTTP.Token = read("http.token", c.HTTP.TokenFile)
	switch {
	case connection.APIKey != "" && (connection.Username != "" || connection.Password != ""):
		l.fault("connection.username", "given beside an API key; use one of them")
	case connection.Username != "" && connection.Password == "" && !l.has("connection.password_file") && !l.has("connection.password"):
		l.fault("connection.username", "given without a password; set connection.password_file or %s", envName("connection.password"))
	case connection.Username == "" && connection.Password != "":
		l.fault("connection.username", "missing beside the password; give it")
	}
	for _, file := range []struct{ key, path string }{
		{"connection.ca_file", connection.CAFile},
		{"connection.client_cert_file", connection.ClientCertFile},
		{"connection.client_key_file", connection.ClientKeyFile},
		{"election.kubeconfig", c.Election.Kubeconfig},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.ReadFile(file.path); err != nil {
			l.fault(file.key, "%v. Make the file exist and readable for the user the daemon runs as", err)
		}
	}
}

// has tells whether the key already has a fault, so that its consequences need no second one.
func (l *loader) has(key string) bool {
	return slices.ContainsFunc(l.faults, func(f fault) bool { return strings.Contains(f.text, key+":") })
}
