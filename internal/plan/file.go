package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Write encodes the plan as one indented JSON document.
func (p *Plan) Write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(p)
}

// Read decodes a plan and checks that its moves make sense. Fields it does not know are ignored.
func Read(r io.Reader) (*Plan, error) {
	broken := func(err error) error {
		return &cluster.Error{Class: cluster.Invalid, Op: "read the plan", Err: err, Hint: "Make one with: shardonnay plan --save FILE"}
	}
	var p Plan
	decoder := json.NewDecoder(r)
	if err := decoder.Decode(&p); err != nil {
		return nil, broken(fmt.Errorf("not a plan: %w", err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, broken(errors.New("something follows after the plan"))
	}
	if p.Version != Version {
		return nil, broken(fmt.Errorf("its version is %d, this program reads %d", p.Version, Version))
	}
	return &p, p.check(broken)
}

// check refuses a plan whose moves cannot be what Diff wrote.
func (p *Plan) check(broken func(error) error) error {
	moved := make(map[string]int)
	for i := range p.Moves {
		m := &p.Moves[i]
		switch earlier, twice := moved[m.AllocationID]; {
		case m.Seq != i+1:
			return broken(fmt.Errorf("move %d has seq %d", i+1, m.Seq))
		case m.Index == "" || m.Shard < 0 || m.From.ID == "" || m.To.ID == "" || m.From.ID == m.To.ID || m.AllocationID == "":
			return broken(fmt.Errorf("move %d does not name an index, a shard, a copy and two nodes", m.Seq))
		case twice:
			return broken(fmt.Errorf("moves %d and %d move the same copy", earlier, m.Seq))
		case m.Bytes < 0:
			return broken(fmt.Errorf("move %d moves %d bytes", m.Seq, m.Bytes))
		}
		moved[m.AllocationID] = m.Seq
		for _, before := range m.After {
			if before < 1 || before >= m.Seq {
				return broken(fmt.Errorf("move %d waits for move %d", m.Seq, before))
			}
		}
	}
	return nil
}

// Usable tells whether the plan may be carried out on that cluster at that time: a Stale error says why not.
func (p *Plan) Usable(clusterUUID string, now time.Time) error {
	stale := func(err error) error {
		return &cluster.Error{Class: cluster.Stale, Op: "apply plan", What: p.ID, Err: err, Hint: "Make a new plan"}
	}
	if p.WhatIf != nil {
		return stale(fmt.Errorf("it is for a cluster as it might be (%s), which this one is not", strings.Join(p.WhatIf.Changes, " ")))
	}
	if p.Cluster.UUID != clusterUUID {
		return stale(fmt.Errorf("it was made for cluster %s (%s), this one is %s", p.Cluster.Name, p.Cluster.UUID, clusterUUID))
	}
	if now.After(p.ExpiresAt) {
		return stale(fmt.Errorf("it expired at %s", p.ExpiresAt.Format(time.RFC3339)))
	}
	return nil
}
