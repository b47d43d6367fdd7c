package cluster

// MaxDimensions bounds how many dimensions a run may have. Loads are arrays and not slices, so that fifty thousand
// copies are one allocation; eight leaves room for three times the usual three at 64 bytes a load.
const MaxDimensions = 8

// Dimension is one kind of load. Which dimensions there are is data: the order in Snapshot.Dimensions gives the
// positions in every Load of that snapshot.
type Dimension struct {
	Name string `json:"name"` // "search", "index", "disk", "heap", "shards"
	Unit string `json:"unit"` // "busy_s/s", "bytes", "1"
}

// The dimensions the collector can measure.
var (
	SearchTime = Dimension{Name: "search", Unit: "busy_s/s"} // seconds of query and fetch work per second
	IndexTime  = Dimension{Name: "index", Unit: "busy_s/s"}  // seconds of indexing, merge and refresh work per second
	DiskBytes  = Dimension{Name: "disk", Unit: "bytes"}      // bytes on disk
	HeapBytes  = Dimension{Name: "heap", Unit: "bytes"}      // estimated heap a copy pins
	ShardCount = Dimension{Name: "shards", Unit: "1"}        // the copy itself: one each
)

// Load is what one copy costs the node that holds it, or the sum over copies: one entry per dimension of the
// snapshot, in that dimension's unit. Entries past the last dimension are zero.
type Load [MaxDimensions]float64

// Plus is the sum of both loads.
func (l Load) Plus(m Load) Load {
	for d := range l {
		l[d] += m[d]
	}
	return l
}

// Minus is l without m.
func (l Load) Minus(m Load) Load {
	for d := range l {
		l[d] -= m[d]
	}
	return l
}

// Times is the load scaled by f.
func (l Load) Times(f float64) Load {
	for d := range l {
		l[d] *= f
	}
	return l
}

// Provenance tells where a copy's rates come from, best first.
type Provenance uint8

// Where a rate can come from.
const (
	Measured    Provenance = iota // two samples of this very copy
	FromGroup                     // mean of the other copies of its shard
	FromIndex                     // mean of the same index's copies
	FromSeries                    // the series' curve of load by age
	SinceStart                    // counters divided by the time since the copy or its node started
	Unknown                       // nothing known: zero
	nProvenance                   // count of the above
)

var provenanceNames = [nProvenance]string{"measured", "group", "index", "series", "since_start", "unknown"}

// String is the name used in warnings, metrics and JSON.
func (p Provenance) String() string {
	if p < nProvenance {
		return provenanceNames[p]
	}
	return "unknown"
}
