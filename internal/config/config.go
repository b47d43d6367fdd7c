package config

import (
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// Config is the whole configuration, checked. The key tags are the names in the file, joined by dots; a field tagged
// restart takes effect at the next start only. configs/shardonnay.yaml explains each.
type Config struct {
	Connection Connection `key:"connection"`
	Mode       plan.Mode  `key:"mode"`
	Cycle      Cycle      `key:"cycle"`
	Sampling   Sampling   `key:"sampling"`
	Balance    Balance    `key:"balance"`
	Pin        Pin        `key:"pin"`
	Regions    Regions    `key:"regions"`
	Limits     Limits     `key:"limits"`
	Stop       Stop       `key:"stop"`
	Ownership  Ownership  `key:"ownership"`
	Election   Election   `key:"election"`
	Zones      Zones      `key:"zones"`
	Solver     Solver     `key:"solver"`
	State      State      `key:"state"`
	HTTP       HTTP       `key:"http"`
	Log        Log        `key:"log"`
}

// Connection says how to reach and enter the cluster. Secrets are not keys of the file: they come from the files named
// here or from SHARDONNAY_CONNECTION_PASSWORD and SHARDONNAY_CONNECTION_API_KEY.
type Connection struct {
	Addresses          []string      `key:"addresses"` // URLs
	Username           string        `key:"username"`
	PasswordFile       string        `key:"password_file"`
	APIKeyFile         string        `key:"api_key_file"`
	CAFile             string        `key:"ca_file"`          // PEM
	ClientCertFile     string        `key:"client_cert_file"` // PEM
	ClientKeyFile      string        `key:"client_key_file"`  // PEM
	InsecureSkipVerify bool          `key:"insecure_skip_verify"`
	AWS                AWS           `key:"aws"`
	Timeout            time.Duration `key:"timeout"` // of one request with its whole answer
	ReadRetries        int           `key:"read_retries"`

	Password Secret // read from PasswordFile or the environment
	APIKey   Secret // read from APIKeyFile or the environment
}

// AWS turns on request signing where Region is set.
type AWS struct {
	Region  string `key:"region"`
	Service string `key:"service"`
}

// Cycle is the rhythm of the daemon.
type Cycle struct {
	Interval  time.Duration `key:"interval"`   // from the start of one cycle to the start of the next
	Jitter    float64       `key:"jitter"`     // share of Interval by which a start is moved at random, both ways
	TimeLimit time.Duration `key:"time_limit"` // for collecting, solving and planning
	Deadline  time.Duration `key:"deadline"`   // for carrying the plan out
}

// Sampling says how load is measured.
type Sampling struct {
	Window        time.Duration `key:"window"`          // between two samples
	HalfLife      time.Duration `key:"half_life"`       // of a past sample's weight in the mean
	StatsBatch    int           `key:"stats_batch"`     // nodes per statistics request
	Settle        time.Duration `key:"settle"`          // after a copy landed, until its own counters count
	MaxStateMoves int           `key:"max_state_moves"` // cluster state versions that may pass during a collection
}

// Balance says what even means and what it may cost.
type Balance struct {
	Dimensions   []Dimension `key:"dimensions"`
	Tolerance    float64     `key:"tolerance"`     // ratio above the mean that costs nothing
	MoveCost     float64     `key:"move_cost"`     // objective for moving every byte once
	WriteFactor  float64     `key:"write_factor"`  // on the bytes of copies that take writes
	SpreadWeight float64     `key:"spread_weight"` // on copies of an index above their fair count on a node
	GrowthShare  float64     `key:"growth_share"`  // ratio of each disk kept free for growth
	Capacity     []Capacity  `key:"capacity"`
}

// Dimension is one kind of load to even out.
type Dimension struct {
	Name   string
	Weight float64
}

// Capacity overrides what some nodes are taken to be able to carry in one dimension. It has the shape of the collector's
// CapacityRule.
type Capacity struct {
	Node      string  // pattern of the node's name, or attribute=pattern
	Dimension string  // name of a configured dimension
	Capacity  float64 // processors for search and index, bytes for disk and heap, copies for shards
}

// Pin says which copies never move.
type Pin struct {
	Indices    []string `key:"indices"`     // patterns of index names
	Newest     bool     `key:"newest"`      // the index of each series that takes writes
	WriteShare float64  `key:"write_share"` // ratio of its node's capacity that a copy's write load may be; 0 is off
}

// Regions say how the copies of a shard spread over regions, zones and hosts, and what may cross between regions.
type Regions struct {
	Attribute       string         `key:"attribute"`      // of nodes, names their region; empty turns everything here off
	ZoneAttribute   string         `key:"zone_attribute"` // of nodes, names their zone
	HostAttribute   string         `key:"host_attribute"` // of nodes, names their host; empty for their address
	Remainder       string         `key:"remainder"`      // main or spread
	Layout          []RegionLayout `key:"layout"`
	Home            []RegionHome   `key:"home"`
	Overload        float64        `key:"overload"`           // ratio above its fair share that a node may be loaded
	CoolDown        time.Duration  `key:"cool_down"`          // of a shard of which a copy moved
	WANFactor       float64        `key:"wan_factor"`         // on the bytes of moves between regions
	WANEvery        int            `key:"wan_every"`          // cycles of which one lets copies cross
	WANBytesPerHour Bytes          `key:"wan_bytes_per_hour"` // per pair of regions and direction; 0 is no limit
	WANInFlight     int            `key:"wan_in_flight"`      // recoveries between regions at a time; 0 is no limit
}

// RegionLayout is how many copies of the shards of some indices are in which region.
type RegionLayout struct {
	Pattern string // of index names
	Copies  map[string]int
}

// RegionHome is the home region of the primaries of some indices.
type RegionHome struct {
	Pattern string // of index names
	Region  string
}

// Limits bound how much moves. 0 is no limit of ours; the server's own limits hold besides.
type Limits struct {
	MaxMovesPerCycle int           `key:"max_moves_per_cycle"`
	MaxBytesPerCycle Bytes         `key:"max_bytes_per_cycle"`
	InFlight         int           `key:"in_flight"`       // relocations in the cluster, anybody's
	InFlightBytes    Bytes         `key:"in_flight_bytes"` // of those relocations
	NodeIncoming     int           `key:"node_incoming"`   // copies a node receives at a time
	NodeOutgoing     int           `key:"node_outgoing"`   // copies a node's data is read for at a time
	PerIndex         int           `key:"per_index"`       // copies of one index on the way
	PerZonePair      int           `key:"per_zone_pair"`   // copies between two zones, per direction
	CoolDown         time.Duration `key:"cool_down"`       // before a copy may move again
}

// Stop names the conditions under which nothing is asked of the cluster.
type Stop struct {
	Status       string        `key:"status"`        // the worst cluster status in which copies are moved: green or yellow
	CPU          float64       `key:"cpu"`           // ratio, of either node of a move; 0 is no limit
	Rejections   float64       `key:"rejections"`    // rejected requests per second, of either node of a move; 0 is no limit
	PendingTasks int           `key:"pending_tasks"` // cluster state updates waiting at the master; 0 is no limit
	TaskWait     time.Duration `key:"task_wait"`     // of the oldest of them; 0 is no limit
	NodeSettle   time.Duration `key:"node_settle"`   // after a node joined or left
	DiskMargin   Bytes         `key:"disk_margin"`   // left on the target below the low watermark once the copy is there
	Storm        int           `key:"storm"`         // relocations of others at a time; 0 is no limit
	Calm         time.Duration `key:"calm"`          // after a storm, in which half the limits hold
	UndoneMoves  int           `key:"undone_moves"`  // moves that others took back within an hour
	Pause        []Window      `key:"pause"`         // weekly windows without moves
}

// Ownership is the record in the cluster's settings that says who moves copies.
type Ownership struct {
	Holder string        `key:"holder"` // never empty once loaded
	Lease  time.Duration `key:"lease"`  // after which a record that nobody renewed is void
	Renew  time.Duration `key:"renew"`  // how often it is renewed
}

// Election is the Kubernetes Lease that says which of several instances runs cycles.
type Election struct {
	Lease      string `key:"lease"`      // its name; empty for an instance that stands alone
	Namespace  string `key:"namespace"`  // empty for the pod's own, or that of the kubeconfig
	Kubeconfig string `key:"kubeconfig"` // path; empty inside a pod
}

// Zones says how the zone controller runs the zones of a cluster; docs/zones.md explains it.
type Zones struct {
	Mode          string        `key:"mode"`           // off, observe, dry-run or act
	Attribute     string        `key:"attribute"`      // awareness attribute that names a node's zone
	Rotation      time.Duration `key:"rotation"`       // from one change of roles to the next; 0 is never
	Round         time.Duration `key:"round"`          // from one look to the next
	ClearAfter    time.Duration `key:"clear_after"`    // for which a zone has to be well to count as healthy again
	HoldFor       time.Duration `key:"hold_for"`       // after which a hold that nobody ended is over
	WriteFailover string        `key:"write_failover"` // off, approve or auto
	Drain         time.Duration `key:"drain"`          // between a zone's last search and its leaving the cluster
	DrainBy       string        `key:"drain_by"`       // controller or server
	EarlyDrain    bool          `key:"early_drain"`    // end a drain once the zone has been idle for a minute
	StableFor     time.Duration `key:"stable_for"`     // for which a zone that is out has to be reachable to come back by itself
	ExemptIndices []string      `key:"exempt_indices"` // patterns of indices that need no copy in the zones that serve
	CanaryIndex   string        `key:"canary_index"`   // for searches and writes that prove each zone; empty for none

	MaxLoadAfterLoss float64 `key:"max_load_after_loss"` // share of a node's capacity that it may carry with any one zone lost; 0 is no limit
}

// Solver bounds the search.
type Solver struct {
	TimeLimit time.Duration `key:"time_limit"`
	WorkLimit int           `key:"work_limit"` // in the solver's units; 0 is no limit
	Seed      int           `key:"seed"`
	TargetGap float64       `key:"target_gap"` // ratio: good enough to stop early
	Workers   int           `key:"workers"`    // 0 is one per core
}

// State is what survives a restart.
type State struct {
	Dir string `key:"dir" restart:"true"` // empty keeps it in memory
}

// HTTP is the daemon's own server.
type HTTP struct {
	Listen    string `key:"listen" restart:"true"` // address:port, empty for none
	Debug     bool   `key:"debug"`                 // serve the last snapshot and problem
	TokenFile string `key:"token_file"`            // its content allows pause and resume

	Token Secret // read from TokenFile
}

// Log says what is written to standard error.
type Log struct {
	Level  string `key:"level"`                 // debug, info, warn, error
	Format string `key:"format" restart:"true"` // console or json
}

// Default is the configuration of configs/shardonnay.yaml.
func Default() Config {
	policy := model.DefaultPolicy()
	return Config{
		Connection: Connection{
			Addresses:   []string{"http://localhost:9200"},
			AWS:         AWS{Service: "es"},
			Timeout:     30 * time.Second,
			ReadRetries: 2,
		},
		Mode:  plan.DryRun,
		Cycle: Cycle{Interval: time.Minute, Jitter: 0.1, TimeLimit: 2 * time.Minute, Deadline: 15 * time.Minute},
		Sampling: Sampling{
			Window: time.Minute, HalfLife: 10 * time.Minute, StatsBatch: 40, Settle: 2 * time.Minute, MaxStateMoves: 1000,
		},
		Balance: Balance{
			Dimensions: []Dimension{{cluster.SearchTime.Name, 1}, {cluster.IndexTime.Name, 1}, {cluster.DiskBytes.Name, 1}},
			Tolerance:  policy.Tolerance, MoveCost: policy.MoveCost, WriteFactor: policy.WriteFactor,
			SpreadWeight: policy.SpreadWeight, GrowthShare: policy.GrowthShare,
		},
		Pin: Pin{Newest: policy.PinNewest, WriteShare: policy.PinWriteShare},
		Regions: Regions{
			ZoneAttribute: "zone", Remainder: string(model.RemainderMain), Overload: 0.1, CoolDown: 24 * time.Hour,
			WANFactor: 4, WANEvery: 10, WANInFlight: 2,
		},
		Limits: Limits{
			MaxMovesPerCycle: 20, MaxBytesPerCycle: 500 << 30, InFlight: 4, InFlightBytes: 200 << 30,
			NodeIncoming: 2, NodeOutgoing: 2, PerIndex: 2, CoolDown: time.Hour,
		},
		Stop: Stop{
			Status: "green", CPU: 0.9, Rejections: 1, PendingTasks: 50, TaskWait: 30 * time.Second,
			NodeSettle: 5 * time.Minute, DiskMargin: 1 << 30, Storm: 10, Calm: 15 * time.Minute, UndoneMoves: 2,
		},
		Ownership: Ownership{Holder: defaultHolder(), Lease: 3 * time.Minute, Renew: time.Minute},
		Zones: Zones{
			Mode: "off", Attribute: "zone", Rotation: 30 * time.Minute, Round: 5 * time.Second, ClearAfter: 10 * time.Minute, HoldFor: 30 * time.Minute,
			WriteFailover: "approve", Drain: 5 * time.Minute, DrainBy: "controller", StableFor: 15 * time.Minute,
		},
		Solver: Solver{TimeLimit: 10 * time.Second, Seed: 1, TargetGap: 0.002},
		HTTP:   HTTP{Listen: "127.0.0.1:9750"},
		Log:    Log{Level: "info", Format: "console"},
	}
}

// Client is the connection as the REST client takes it.
func (c *Connection) Client() es.Config {
	retries := c.ReadRetries
	if retries == 0 {
		retries = -1 // es takes 0 for its default
	}
	return es.Config{
		Addresses: c.Addresses, Username: c.Username, Password: string(c.Password), APIKey: string(c.APIKey),
		CAFile: c.CAFile, ClientCertFile: c.ClientCertFile, ClientKeyFile: c.ClientKeyFile,
		InsecureSkipVerify: c.InsecureSkipVerify, AWS: es.AWS{Region: c.AWS.Region, Service: c.AWS.Service},
		Timeout: c.Timeout, ReadRetries: retries,
	}
}

// Policy is what the model needs of the configuration. Copies that are cooling down are the caller's to add.
func (c *Config) Policy() model.Policy {
	policy := model.Policy{
		Weights:   make(map[string]float64, len(c.Balance.Dimensions)),
		Tolerance: c.Balance.Tolerance, MoveCost: c.Balance.MoveCost, WriteFactor: c.Balance.WriteFactor,
		SpreadWeight: c.Balance.SpreadWeight, GrowthShare: c.Balance.GrowthShare,
		PinIndices: c.Pin.Indices, PinNewest: c.Pin.Newest, PinWriteShare: c.Pin.WriteShare,
		MaxMoves: c.Limits.MaxMovesPerCycle, MaxBytes: int64(c.Limits.MaxBytesPerCycle),
	}
	for _, d := range c.Balance.Dimensions {
		policy.Weights[d.Name] = d.Weight
	}
	policy.Regions = c.Regions.policy()
	if c.Zones.Mode != "off" || c.Zones.MaxLoadAfterLoss > 0 {
		policy.Zones = c.Zones.Attribute
	}
	policy.MaxLoadAfterLoss = c.Zones.MaxLoadAfterLoss
	return policy
}

// policy is the regions as the model takes them; nil where they are off. What moved lately and what may cross is the
// caller's to add.
func (r *Regions) policy() *model.Regions {
	if r.Attribute == "" {
		return nil
	}
	regions := &model.Regions{
		Region: r.Attribute, Zone: r.ZoneAttribute, Host: r.HostAttribute, Remainder: model.Remainder(r.Remainder),
		Overload: r.Overload, WAN: model.WAN{Factor: r.WANFactor},
	}
	for _, layout := range r.Layout {
		regions.Layouts = append(regions.Layouts, model.Layout(layout))
	}
	for _, home := range r.Home {
		regions.Homes = append(regions.Homes, model.Home(home))
	}
	return regions
}

// measurable are the dimensions that can be configured, with their units.
var measurable = []cluster.Dimension{cluster.SearchTime, cluster.IndexTime, cluster.DiskBytes, cluster.HeapBytes, cluster.ShardCount}

// Measured lists the configured dimensions as the collector takes them, in the order of the configuration.
func (b *Balance) Measured() []cluster.Dimension {
	var dimensions []cluster.Dimension
	for _, d := range b.Dimensions {
		for _, m := range measurable {
			if m.Name == d.Name {
				dimensions = append(dimensions, m)
			}
		}
	}
	return dimensions
}
