package plan

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

// Solved is the solver's answer: the node position of every copy of the problem, and the bound on the objective.
type Solved struct {
	Assignment []int32
	LowerBound float64
	Solver     Solver
}

// Options say how a plan is made from an answer.
type Options struct {
	Mode      Mode
	CreatedAt time.Time
	Expiry    time.Duration // the plan's life; 0 means an hour

	MaxMoves int   // 0 is no limit; the problem's own limits hold too
	MaxBytes int64 // 0 is no limit; the problem's own limits hold too

	// Taken is the snapshot as it was taken, relocations under way included, when the problem was built from its
	// projection: the order then never relies on one of them having landed. Nil where nothing is under way.
	Taken *cluster.Snapshot

	// Returns are recent moves by the allocation id their copy has now: going back there must gain at least so much.
	Returns map[string]Return

	PerNode int // relocations at a time into and out of a node, for the estimate; 0 is the server's limits
	AtOnce  int // relocations at a time in the cluster, for the estimate; 0 is no limit
}

// Return is where a copy came from not long ago, and what going back has to gain.
type Return struct {
	Node    cluster.NodeID
	MinGain float64
}

// defaultExpiry is how long a plan holds where nobody says otherwise: long enough to be read and applied by a person, short
// against the hours in which load shifts.
const defaultExpiry = time.Hour

// Diff orders the moves from the present state to the solved one and explains what it leaves. b and solved are only read.
// An error means that the answer does not belong to the problem or breaks a hard rule.
func Diff(b *model.Built, solved Solved, o Options) (*Plan, error) {
	if found := model.Check(b.Problem, solved.Assignment); len(found) > 0 {
		return nil, &cluster.Error{
			Class: cluster.Internal, Op: "order the moves", Err: fmt.Errorf("the solved assignment breaks %d rules, the first is %s", len(found), found[0]),
			Hint: "Save the problem with plan --dump-problem and report it",
		}
	}
	s := sequence(b, solved.Assignment, &o)
	taken := b.Snapshot
	if o.Taken != nil {
		taken = o.Taken
	}
	if o.Expiry <= 0 {
		o.Expiry = defaultExpiry
	}
	p := &Plan{
		Version: Version, CreatedAt: o.CreatedAt.UTC(), ExpiresAt: o.CreatedAt.UTC().Add(o.Expiry), Mode: o.Mode,
		Cluster: Cluster{
			Name: taken.Cluster.Name, UUID: taken.Cluster.UUID,
			Distribution: taken.Cluster.Product.Distribution, Version: taken.Cluster.Product.Version.String(),
		},
		Snapshot: Snapshot{
			Fingerprint: taken.Fingerprint(), TakenAt: taken.TakenAt.UTC(), StateVersion: taken.StateVersion,
			Samples: taken.Samples, WindowS: taken.Window.Seconds(), Nodes: len(b.Problem.Nodes), Indices: len(taken.Indices),
			Copies: len(taken.Copies), Warnings: append([]string{}, taken.Warnings...),
		},
		Objective: s.objective(solved.LowerBound), Balance: s.balance(), Moves: s.movesOf(), Verdicts: s.verdicts(),
		Solver: solved.Solver,
	}
	if p.Verdicts == nil {
		p.Verdicts = []Verdict{}
	}
	p.Totals = s.totals(p.Moves)
	p.ID = p.id()
	return p, nil
}

// id is a ULID of the plan's time and content: the same plan made at the same moment is the same plan.
func (p *Plan) id() string {
	hash := sha256.New()
	fmt.Fprintln(hash, p.Snapshot.Fingerprint, p.CreatedAt.UnixNano(), p.Mode)
	for i := range p.Moves {
		fmt.Fprintln(hash, p.Moves[i].AllocationID, p.Moves[i].To.ID)
	}
	return ulid.MustNew(ulid.Timestamp(p.CreatedAt), bytes.NewReader(hash.Sum(nil))).String()
}

// movesOf writes the steps as moves.
func (s *sequencer) movesOf() []Move {
	moves := make([]Move, len(s.steps))
	primaryAt := make(map[int32]int32) // shard group -> node of its primary by now
	for c := range s.p.Copies {
		if k := &s.p.Copies[c]; k.Primary {
			primaryAt[k.Group] = k.Node
		}
	}
	for i := range s.steps {
		st := &s.steps[i]
		k, problemCopy := &s.b.Snapshot.Copies[s.b.CopyOf[st.copy]], &s.p.Copies[st.copy]
		index := &s.b.Snapshot.Indices[k.Index]
		sender, known := primaryAt[problemCopy.Group]
		if !known || k.Primary {
			sender = st.from
		}
		if k.Primary {
			primaryAt[problemCopy.Group] = st.to
		}
		m := Move{
			Seq: i + 1, Index: index.Name, IndexUUID: index.UUID, Shard: int(k.Shard), Primary: k.Primary, AllocationID: k.AllocationID,
			From: s.at(st.from), To: s.at(st.to), Bytes: k.Bytes, BytesSource: Source{ID: s.at(sender).ID},
			After: make([]int, len(st.after)), Reason: st.reason, Gain: st.gain, GainPerGiB: st.gain / max(1, float64(k.Bytes)) * (1 << 30), Text: st.text,
		}
		if st.crosses {
			link := st.link
			m.WAN = &link
		}
		for j, before := range st.after {
			m.After[j] = before + 1
		}
		moves[i] = m
	}
	return moves
}

func (s *sequencer) at(n int32) Place {
	return Place{ID: s.b.Snapshot.Nodes[s.b.NodeOf[n]].ID, Name: s.name(n), Zone: s.b.Snapshot.Zone(int(s.b.NodeOf[n]))}
}

// objective evaluates both ends from the definition rather than from the sums kept on the way.
func (s *sequencer) objective(bound float64) Objective {
	before, after := model.Evaluate(s.p, s.p.Current()), model.Evaluate(s.p, s.place.Assignment())
	o := Objective{Before: model.Total(before), After: model.Total(after), LowerBound: bound, Terms: make([]Term, len(before))}
	for i := range before {
		o.Terms[i] = Term{Name: before[i].Name, Weight: before[i].Weight, Before: before[i].Value, After: after[i].Value}
	}
	o.Captured = 1
	if room := o.Before - bound; room > minNet {
		o.Captured = (o.Before - o.After) / room
	}
	o.Gap = (o.After - bound) / max(math.Abs(o.After), 1e-9)
	return o
}

// balance sums up every dimension of every domain before, after and at the solver's target.
func (s *sequencer) balance() []Balance {
	rows := []Balance{}
	assignments := [][]int32{s.p.Current(), s.place.Assignment(), s.want}
	names := s.b.DomainNames(s.loads.domains)
	for d := range s.b.Snapshot.Dimensions { // the problem may have more, which are prices
		var utilization [3][]float64
		for i, node := range assignments {
			utilization[i] = model.Utilization(s.p, s.loads.domains, node, d)
		}
		for i := range s.loads.domains {
			if s.loads.domains[i].Mean[d] <= 0 {
				continue
			}
			rows = append(rows, Balance{
				Dimension: s.p.Dimensions[d].Name, Unit: s.b.Snapshot.Dimensions[d].Unit, Domain: names[i], Mean: s.loads.mean(i, d),
				Before: s.loads.evenness(i, d, utilization[0]), After: s.loads.evenness(i, d, utilization[1]),
				Target: s.loads.evenness(i, d, utilization[2]),
			})
		}
	}
	return rows
}
