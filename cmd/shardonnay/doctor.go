package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/doctor"
	"github.com/shardonnay/shardonnay/internal/mover"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at the cluster and say what stands in the way, with the cure",
		Long: "Connects, names the product and version, and looks at privileges, settings, ownership records left behind, awareness, watermarks,\n" +
			"and other balancers. Reads only. Exits with 1 when something keeps the daemon from acting.",
		Example: "  shardonnay doctor --address http://localhost:9200\n  shardonnay doctor --config shardonnay.yaml -o json",
	}
	addConfig(cmd)
	output := addFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		progress := newProgress(os.Stderr)
		defer progress.done()
		progress.say("connecting")
		s, collect, err := connectToCollect(cmd.Context(), &c)
		if err != nil {
			return err
		}
		defer s.close()
		progress.say("examining %s (%s)", s.identity.Name, s.identity.Product)
		snapshot, err := collect.Collect(cmd.Context())
		if err != nil {
			return err
		}
		evidence, err := gather(cmd.Context(), s, snapshot)
		if err != nil {
			return err
		}
		findings := doctor.Examine(evidence)
		progress.done()
		if err := printFindings(cmd.OutOrStdout(), s.identity, findings, *output); err != nil {
			return err
		}
		for _, f := range findings {
			if f.Severity == doctor.Blocks {
				return exitStatus(1)
			}
		}
		return nil
	}
	return cmd
}

// gather reads what the snapshot does not hold: the server's wishes, and whether it would let us move.
func gather(ctx context.Context, s *session, snapshot *cluster.Snapshot) (doctor.Evidence, error) {
	evidence := doctor.Evidence{Snapshot: snapshot, RerouteRefused: s.client.MayReroute(ctx)}
	switch record, err := mover.ParseRecord(snapshot.Settings.Ownership); {
	case err != nil:
		evidence.RecordUnreadable = true
	case record != nil:
		evidence.RecordExpired = record.Expired(time.Now())
	}
	if s.identity.Product.HasDesiredBalance() {
		switch balance, err := s.client.DesiredBalance(ctx); {
		case cluster.ClassOf(err) == cluster.Refused:
			evidence.WishesRefused = true
		case err != nil:
			return evidence, err
		case balance != nil:
			evidence.Wishes = len(balance.Wishes())
		}
	}
	return evidence, nil
}

func printFindings(w io.Writer, identity cluster.Identity, findings []doctor.Finding, output format) error {
	if output == asJSON {
		if findings == nil {
			findings = []doctor.Finding{}
		}
		return printJSON(w, map[string]any{
			"version": 1, "cluster": map[string]string{
				"name": identity.Name, "uuid": identity.UUID, "distribution": string(identity.Product.Distribution), "version": identity.Product.Version.String(),
			}, "findings": findings,
		})
	}
	fmt.Fprintf(w, "%s: %s\n", identity.Name, identity.Product)
	if len(findings) == 0 {
		_, err := fmt.Fprintln(w, "nothing found: the daemon can act here")
		return err
	}
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.SeparateRows = true
	t.AppendHeader(table.Row{"", "subject", "what is so"})
	for _, f := range findings {
		t.AppendRow(table.Row{string(f.Severity) + "\n" + f.ID, f.Subject, f.Text})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, WidthMax: 64}, {Number: 3, WidthMax: 80, WidthMaxEnforcer: text.WrapSoft}})
	t.Render()
	return printCures(w, findings)
}

// printCures writes each cure on a line of its own, to be copied as it is; one that cures several findings once.
func printCures(w io.Writer, findings []doctor.Finding) error {
	for from := 0; from < len(findings); {
		f, until := findings[from], from+1
		for until < len(findings) && findings[until].ID == f.ID && findings[until].Cure == f.Cure {
			until++
		}
		more := ""
		if until-from > 1 {
			more = fmt.Sprintf(" and %d more", until-from-1)
		}
		if _, err := fmt.Fprintf(w, "\ncure of %s, %s%s:\n%s\n", f.ID, f.Subject, more, f.Cure); err != nil {
			return err
		}
		from = until
	}
	return nil
}
