package zones

import "time"

// Mode is how far the controller goes.
type Mode string

// The modes.
const (
	Off     Mode = "off"     // nothing is looked at
	Observe Mode = "observe" // health and roles are exported
	DryRun  Mode = "dry-run" // decisions too, with the requests that would be sent
	Act     Mode = "act"     // and they are sent
)

// WriteMode says who may take a zone out of the write path.
type WriteMode string

// The ways to a write failover.
const (
	Never   WriteMode = "off"     // nobody
	Approve WriteMode = "approve" // a person
	Auto    WriteMode = "auto"    // the controller by itself, and a person
)

// Config is what the controller reads of the configuration, at every round.
type Config struct {
	Mode      Mode
	Attribute string        // the awareness attribute that names a node's zone
	Round     time.Duration // from one look to the next
	Rotation  time.Duration // from one change of roles to the next; 0: the standby keeps its role
	Clear     time.Duration // for which a zone has to be well before it counts as healthy again
	Hold      time.Duration // after which a hold that nobody ended is over

	Writes     WriteMode
	Drain      time.Duration // between a zone's last search and its leaving the cluster
	ServerTime bool          // the server waits out the drain and not the controller
	EarlyDrain bool          // do not wait for the whole drain where the zone has been idle for a minute
	Stable     time.Duration // for which a zone that is out has to be reachable before it comes back by itself

	Exempt []string // patterns of indices that need no copy in the zones that serve
	Canary string   // an index for searches and writes that prove each zone; empty for none
}

// The numbers that are nobody's taste: rounds and shares by which a signal counts, with where they come from in
// docs/zones.md.
const (
	probeRounds    = 3    // unanswered probes running, of more than half of a zone's nodes
	missingRounds  = 2    // rounds in which more than half of a zone's nodes are not in the cluster
	zoneFraction   = 0.5  // of a zone's nodes; up to it a zone has lost nodes and not failed
	copiesFraction = 0.5  // of a zone's copies, started
	wellFraction   = 0.99 // of a zone's copies, started: it can serve
	slowFactor     = 3    // times the median of the other zones that serve
	slowLeast      = 200 * time.Millisecond
	slowRounds     = 6
	rejectedShare  = 0.01 // of operations
	rejectedRounds = 3
	openRounds     = 2
	canaryOf       = 5 // looks back
	canaryBad      = 3 // of them
	canaryFactor   = 5 // times its usual time
	canaryLeast    = time.Second
	managerWait    = 30 * time.Second // of the oldest task of the elected master
	writeHeld      = 60 * time.Second // for which writes have to be impaired
	writeGap       = 30 * time.Second // for which they may be quick in between: a zone may answer now and then
	coldFor        = 5 * time.Minute  // after a change of roles: what searches and writes take then is not usual
	flapsAllowed   = 2                // failovers of one zone within flapWindow
	flapWindow     = 2 * time.Hour

	verifyWithin = 60 * time.Second // for a change to be seen in every zone
	leakShare    = 0.01             // of its share of the searches that a new standby may still get
	fenceWithin  = 180 * time.Second
	fenceTries   = 2
	idleFor      = 60 * time.Second
	staleAfter   = 15 * time.Minute // a write failover is not begun from a journal older than this
	rejoinAlert  = 150 * time.Second

	capacityRatio = 1.1 // the largest zone to the smallest
	peakShare     = 0.7 // of the capacity that is left once a zone is lost
)

// settled is how long after a change of roles nothing is changed again without need, and how long a leader has to have
// led: 25 and 2 minutes at the usual half hour between rotations.
func (c *Config) settled() time.Duration { return c.Rotation * 5 / 6 }

func (c *Config) leaderStable() time.Duration { return min(2*time.Minute, c.Rotation/15) }

// slack is how much later than it should a server's own timer may still do something, and how long is waited before a
// decommission that failed is asked for again: a minute at the usual drain of five.
func (c *Config) slack() time.Duration {
	return min(max(c.Drain/5, 2*time.Second), time.Minute)
}
