package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/zones"
)

func newZones() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "zones",
		Short: "Look at the zones of a cluster, rehearse their loss, and say what is to become of them",
		Long: "Shows which zones serve searches and which stands by, says whether any could be lost now, and tells the daemon that runs the zones\n" +
			"what to do. An order stands in the cluster's settings until it has been dealt with; where no daemon runs the zones, the command\n" +
			"carries it out itself. Every change is shown first, with what each guard says, and takes --yes.",
		Example: "  shardonnay zones status --address http://localhost:9200\n  shardonnay zones rotate --config shardonnay.yaml --reason \"planned work in b\" --yes",
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(
		newZonesStatus(), newZonesAudit(), newZonesRehearse(), newZonesHold(), newZonesPin(),
		newZonesOrder("rotate", "Let the standby serve now, as if its time had come", zones.OrderRotate, false,
			"The zone that has served longest stands by then, or the pinned one. What a rotation must not do is guarded as ever; only how long\n"+
				"ago the last one was does not matter."),
		newZonesFailover(),
		newZonesOrder("abort", "Keep a zone that drains", zones.OrderAbort, false,
			"Ends a departure that has not reached the server yet: the zone stays, as a standby. A zone that is out comes back by recommission."),
		newZonesOrder("recommission", "Let the zone that is out come back", zones.OrderRecommission, false,
			"Its nodes join again, which they ask for every two minutes by default; its copies catch up; then it stands by. The server drops\n"+
				"every voting exclusion with it."),
		newZonesOrder("resume", "End a hold", zones.OrderResume, false,
			"Ends what zones hold began, and the controller's own hold after somebody else has changed something. Weights are adopted as they\n"+
				"are then."),
		newZonesOrder("release", "Let a zone serve again that failed over too often", zones.OrderRelease, true,
			"A zone that has failed over twice within two hours stays the standby until somebody who has looked says this."),
	)
	return cmd
}

// zonesAt is a command's view of a cluster's zones.
type zonesAt struct {
	*session
	config     config.Config
	controller *zones.Controller // that only looks
	progress   *progress
	ran        string // session of the controller that has run the zones in this process; empty for none
}

// addZonesFlags are the flags that all of them share.
func addZonesFlags(cmd *cobra.Command) {
	addConfig(cmd)
	cmd.Flags().String("attribute", "", "awareness attribute that `names` a node's zone")
	config.BindFlag(cmd.Flags(), "attribute", "zones.attribute")
}

// lookAtZones runs do with a connection and a controller that only looks.
func lookAtZones(cmd *cobra.Command, do func(*zonesAt) error) (err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	z := &zonesAt{config: c, progress: newProgress(os.Stderr)}
	defer z.progress.done()
	z.progress.say("connecting")
	if z.session, err = connect(cmd.Context(), &c); err != nil {
		return err
	}
	defer z.close()
	journal, _, err := zones.OpenJournal("", z.identity.UUID)
	if err != nil {
		return err
	}
	z.controller = z.newController(zones.Observe, journal, nil)
	defer func() { err = errors.Join(err, z.controller.Close()) }()
	z.progress.say("looking at the zones of %s", z.identity.Name)
	return do(z)
}

// newController makes a controller of a mode. It does what it is told and nothing when its time has come: that is for a
// daemon.
func (z *zonesAt) newController(mode zones.Mode, journal *zones.Journal, observe func(*zones.Status)) *zones.Controller {
	settings := zonesConfig(&z.config.Zones)
	settings.Mode, settings.Rotation = mode, 0
	if settings.Writes == zones.Auto {
		settings.Writes = zones.Approve
	}
	return zones.New(zones.Options{
		Client: z.client, Identity: z.identity, Addresses: z.config.Connection.Addresses, Config: func() zones.Config { return settings },
		Journal: journal, Holder: z.config.Ownership.Holder, Observe: observe,
	})
}

func newZonesStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the zones: roles, weights, health, and who runs them",
		Long: "Looks at every node and at what the daemon that runs the zones has last said. Health is that of one look: what makes a zone fail\n" +
			"takes several, which the daemon makes. Reads only.",
		Example: "  shardonnay zones status --address http://localhost:9200\n  shardonnay zones status --config shardonnay.yaml -o json",
	}
	addZonesFlags(cmd)
	output := addFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return lookAtZones(cmd, func(z *zonesAt) error {
			s, orders, err := z.controller.Look(cmd.Context())
			if err != nil {
				return err
			}
			z.progress.done()
			if *output == asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{
					"version": 1, "cluster": z.about(), "status": s, "owner": orders.Owner, "order": orders.Order,
				})
			}
			return printZones(cmd.OutOrStdout(), z, s, orders)
		})
	}
	return cmd
}

// about names the cluster for machines.
func (z *zonesAt) about() map[string]string {
	return map[string]string{
		"name": z.identity.Name, "uuid": z.identity.UUID, "distribution": string(z.identity.Product.Distribution),
		"version": z.identity.Product.Version.String(),
	}
}

// addWindow is for the commands that compare zones with the load they have to carry.
func addWindow(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("window", 10*time.Second, "how long to measure the load where no daemon has seen a day of it; 0 for not at all")
}

// measure learns the load that the zones which stay would have to carry; the text says where it comes from.
func (z *zonesAt) measure(ctx context.Context, window time.Duration) (source string, err error) {
	if _, _, err := z.controller.Look(ctx); err != nil {
		return "", err
	}
	switch {
	case z.controller.KnowsPeak():
		return "the peak of a day, as the daemon has seen it", nil
	case window <= 0:
		return "not known", nil
	}
	z.progress.say("measuring the load for %s", window)
	if err := z.controller.Measure(ctx, window); err != nil {
		return "", err
	}
	return fmt.Sprintf("of the last %s only: no daemon has seen a day of it", window), nil
}

func newZonesAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Say whether each zone could be lost now, with what to mend",
		Long: "Looks at copies, voters, forced awareness, disks, and what the other zones could carry. Works on every product; those that know no\n" +
			"weights of zones are audited all the same. Reads only. Exits with 1 where a zone cannot be lost.",
		Example: "  shardonnay zones audit --address http://localhost:9200\n  shardonnay zones audit --config shardonnay.yaml -o json",
	}
	addZonesFlags(cmd)
	output, window := addFormat(cmd), addWindow(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return lookAtZones(cmd, func(z *zonesAt) error {
			source, err := z.measure(cmd.Context(), *window)
			if err != nil {
				return err
			}
			a, err := z.controller.Audit(cmd.Context())
			if err != nil {
				return err
			}
			z.progress.done()
			if *output == asJSON {
				err = printJSON(cmd.OutOrStdout(), map[string]any{"version": 1, "cluster": z.about(), "ok": a.OK(), "load": source, "audit": a})
			} else {
				err = printAudit(cmd.OutOrStdout(), z, a, source)
			}
			if err == nil && !a.OK() {
				return exitStatus(1)
			}
			return err
		})
	}
	return cmd
}

func newZonesRehearse() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rehearse [ZONE]",
		Short: "Fail a zone over on paper: what would serve, what would be lost, the very requests",
		Long: "Asks every guard that a failover would be asked, against the cluster as it is now, for each zone or one of them: searches leaving the\n" +
			"zone, and the zone leaving the cluster. Names the shards that nothing would serve, and how long it would take at most. Sends nothing.",
		Example: "  shardonnay zones rehearse --address http://localhost:9200\n  shardonnay zones rehearse b --config shardonnay.yaml -o json",
		Args:    cobra.MaximumNArgs(1),
	}
	addZonesFlags(cmd)
	output, window := addFormat(cmd), addWindow(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return lookAtZones(cmd, func(z *zonesAt) error {
			source, err := z.measure(cmd.Context(), *window)
			if err != nil {
				return err
			}
			r, err := z.controller.Rehearse(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if err := r.Only(args[0]); err != nil {
					return err
				}
			}
			z.progress.done()
			if *output == asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"version": 1, "cluster": z.about(), "load": source, "rehearsal": r})
			}
			return printRehearsal(cmd.OutOrStdout(), z, r, source)
		})
	}
	return cmd
}

// asking are the flags of a command that changes something.
type asking struct {
	output *format
	yes    *bool
	reason *string
}

func addAsking(cmd *cobra.Command) asking {
	addZonesFlags(cmd)
	return asking{addFormat(cmd), cmd.Flags().Bool("yes", false, "do it"), cmd.Flags().String("reason", "", "why, for whoever reads the journal")}
}

// newZonesOrder makes the command of one order.
func newZonesOrder(name, short string, verb zones.Verb, ofZone bool, long string) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Long: long}
	argument := ""
	if ofZone {
		cmd.Use, cmd.Args, argument = name+" ZONE", cobra.ExactArgs(1), " b"
	}
	cmd.Example = fmt.Sprintf("  shardonnay zones %[1]s%[2]s --address http://localhost:9200\n  shardonnay zones %[1]s%[2]s --config shardonnay.yaml --yes -o json", name, argument)
	asks := addAsking(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return orderZones(cmd, verb, args, asks) }
	return cmd
}

func newZonesFailover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "failover ZONE",
		Short: "Let searches leave a zone; with --out, take it out of the cluster",
		Long: "Searches leave the zone and the standby serves in its stead: no data moves, and it can be taken back at once. With --out writes leave\n" +
			"it too: it drains, hands the lead over, and its nodes leave the cluster until recommission. A zone without a node that may lead\n" +
			"cannot be taken out: with --soft its nodes stay and give their copies up, which other zones have in step.",
		Example: "  shardonnay zones failover b --config shardonnay.yaml --reason \"its network drops packets\" --yes\n  shardonnay zones failover b --out --yes",
		Args:    cobra.ExactArgs(1),
	}
	asks := addAsking(cmd)
	out := cmd.Flags().Bool("out", false, "take the zone out of the cluster")
	soft := cmd.Flags().Bool("soft", false, "with --out: leave its nodes in the cluster and make them give their copies up")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		verb := zones.OrderFailover
		switch {
		case *soft && !*out:
			return &cluster.Error{
				Class: cluster.Invalid, Op: "read the command line", Err: errors.New("--soft says how a zone is taken out, and --out is not given"), Hint: "Give both, or neither",
			}
		case *soft:
			verb = zones.OrderFence
		case *out:
			verb = zones.OrderOut
		}
		return orderZones(cmd, verb, args, asks)
	}
	return cmd
}

// orderZones shows what an order would come to, and has it carried out.
func orderZones(cmd *cobra.Command, verb zones.Verb, args []string, asks asking) error {
	zone := ""
	if len(args) > 0 {
		zone = args[0]
	}
	return lookAtZones(cmd, func(z *zonesAt) error {
		s, orders, err := z.controller.Look(cmd.Context())
		if err != nil {
			return err
		}
		p, err := z.controller.Preview(cmd.Context(), verb, zone)
		if err != nil {
			return err
		}
		switch running := s.Owner != nil; {
		case p.Text == s.Unsupported && s.Unsupported != "":
		case verb == zones.OrderResume && s.Hold != nil:
			p.Text = fmt.Sprintf("the hold of %s ends: %s", s.Hold.By, s.Hold.Reason)
		case verb == zones.OrderResume:
			p.Possible, p.Text = false, "nothing holds"
		case verb == zones.OrderRelease && !running && z.config.State.Dir == "":
			p.Possible, p.Text = false, "no daemon runs the zones, and without its journal (state.dir) nobody knows which zones it keeps standby"
		}
		z.progress.done()
		op := "carry out zones " + string(verb)
		show := func(result string) error {
			if *asks.output == asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"version": 1, "cluster": z.about(), "preview": p, "done": *asks.yes && p.Possible, "result": result})
			}
			if !*asks.yes || !p.Possible {
				printPreview(cmd.OutOrStdout(), p)
			}
			if result != "" {
				fmt.Fprintln(cmd.OutOrStdout(), result)
			}
			return nil
		}
		if !p.Possible {
			return errors.Join(show(""), &cluster.Error{Class: cluster.Rejected, Op: op, What: zone, Err: errors.New(p.Text)})
		}
		if !*asks.yes {
			return errors.Join(show(""), &cluster.Error{
				Class: cluster.Invalid, Op: op, What: zone, Err: fmt.Errorf("this would be done on %s", z.identity.Name), Hint: "Add --yes to do it",
			})
		}
		order := zones.Order{ID: ulid.Make().String(), Verb: verb, Zone: zone, By: person(&z.config), Reason: *asks.reason, At: time.Now().UTC()}
		result, err := z.carryOut(cmd.Context(), order, orders)
		if err != nil {
			return err
		}
		return show(result)
	})
}

// person is who gives an order, for the setting and the journal.
func person(c *config.Config) string {
	who, err := user.Current()
	host, hostErr := os.Hostname()
	if err != nil || hostErr != nil {
		return c.Ownership.Holder
	}
	return who.Username + "@" + host
}

const (
	// askAgain is the time between two looks at whether an order has been dealt with.
	askAgain = time.Second
	// dealtWithin is how long a daemon that runs the zones may take to deal with an order: some rounds, a routing table that
	// is slow to read, and the writing of its record.
	dealtWithin = 2 * time.Minute
)

// carryOut writes an order down and waits for what comes of it. Where nobody runs the zones, they are run here until it is
// done. The order is gone from the settings afterwards, whatever came of it: it was meant for now.
func (z *zonesAt) carryOut(ctx context.Context, order zones.Order, orders zones.Orders) (result string, err error) {
	now := time.Now()
	if before := orders.Order; before != nil && now.Sub(before.At) < dealtWithin && (orders.Owner == nil || orders.Owner.Handled != before.ID) {
		return "", &cluster.Error{
			Class: cluster.Rejected, Op: "give an order", What: string(order.Verb), Err: fmt.Errorf("%s by %s is waiting to be dealt with", before.Verb, before.By),
			Hint: "Wait for it",
		}
	}
	defer func() { err = errors.Join(err, z.tidy(context.WithoutCancel(ctx), order)) }()
	switch owner := orders.Owner; {
	case owner != nil && now.Before(owner.Expires):
		z.progress.say("%s runs the zones; waiting for it", owner.Holder)
		if err := z.give(ctx, order); err != nil {
			return "", err
		}
		result, err = z.await(ctx, order)
	case order.Verb == zones.OrderResume:
		return "the hold is gone from the settings; no daemon runs the zones now", z.client.PutSettings(ctx, map[string]any{zones.HoldKey: nil})
	default:
		fmt.Fprintln(os.Stderr, "No daemon runs the zones: this command does, until it is done.")
		result, err = z.runZones(ctx, order)
	}
	z.progress.done()
	if err == nil && zones.Refused(result) {
		err = &cluster.Error{Class: cluster.Rejected, Op: "carry out zones " + string(order.Verb), What: order.Zone, Err: errors.New(result)}
	}
	return result, err
}

// give writes an order down; with one to resume the hold goes.
func (z *zonesAt) give(ctx context.Context, order zones.Order) error {
	settings := map[string]any{zones.OrderKey: inSetting(order)}
	if order.Verb == zones.OrderResume {
		settings[zones.HoldKey] = nil
	}
	return z.client.PutSettings(ctx, settings)
}

// inSetting is how a value stands in a setting.
func inSetting(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		panic("an order and a hold are texts and times: " + err.Error())
	}
	return string(content)
}

// orders reads what stands in the settings.
func (z *zonesAt) orders(ctx context.Context) (zones.Orders, error) {
	raw, err := z.client.Settings(ctx)
	if err != nil {
		return zones.Orders{}, err
	}
	return zones.ReadOrders(raw.Persistent)
}

// tidy takes an order out of the settings, and the record of a command that has run the zones itself.
func (z *zonesAt) tidy(ctx context.Context, order zones.Order) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now, err := z.orders(ctx)
	if err != nil {
		return err
	}
	gone := map[string]any{}
	if now.Order != nil && now.Order.ID == order.ID {
		gone[zones.OrderKey] = nil
	}
	if now.Owner != nil && now.Owner.Holder == z.config.Ownership.Holder && now.Owner.Session == z.ran {
		gone[zones.OwnerKey] = nil
	}
	if len(gone) == 0 {
		return nil
	}
	return z.client.PutSettings(ctx, gone)
}

// await waits until the daemon that runs the zones has dealt with an order.
func (z *zonesAt) await(ctx context.Context, order zones.Order) (string, error) {
	deadline := time.Now().Add(dealtWithin)
	ticker := time.NewTicker(askAgain)
	defer ticker.Stop()
	for {
		now, err := z.orders(ctx)
		switch {
		case err != nil && cluster.ClassOf(err) != cluster.Unavailable:
			return "", err
		case err != nil: // it is just when a zone is ill that orders are given
		case now.Owner != nil && now.Owner.Handled == order.ID:
			return now.Owner.Result, nil
		case now.Order == nil || now.Order.ID != order.ID:
			return "", &cluster.Error{Class: cluster.Rejected, Op: "wait for the order", What: string(order.Verb), Err: errors.New("somebody has taken it back or given another")}
		case time.Now().After(deadline):
			return "", &cluster.Error{
				Class: cluster.Unavailable, Op: "wait for the order", What: string(order.Verb), Err: fmt.Errorf("%s has not dealt with it within %s", now.Owner.Holder, dealtWithin),
				Hint: "It is taken back; look at the daemon's log",
			}
		}
		select {
		case <-ctx.Done():
			return "", &cluster.Error{Class: cluster.Interrupted, Op: "wait for the order", What: string(order.Verb), Err: context.Cause(ctx), Hint: "It is taken back, if it was not dealt with yet"}
		case <-ticker.C:
		}
	}
}

// runZones runs the zones in this process until an order is done.
func (z *zonesAt) runZones(ctx context.Context, order zones.Order) (result string, err error) {
	journal, warning, err := zones.OpenJournal(z.config.State.Dir, z.identity.UUID)
	if err != nil {
		return "", err
	}
	if warning != "" {
		fmt.Fprintln(os.Stderr, warning)
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var last *zones.Status
	controller := z.newController(zones.Act, journal, func(s *zones.Status) {
		for _, n := range s.Notes {
			fmt.Fprintf(os.Stderr, "%s %s\n", s.At.Format(time.TimeOnly), n.Text)
		}
		if last = s; finished(s, order) {
			stop()
		}
	})
	z.ran = controller.Session()
	err = controller.Inherit(ctx)
	if err == nil {
		err = z.give(ctx, order) // after the first look: what is there before that was meant for somebody else
	}
	if err != nil {
		return "", errors.Join(err, controller.Close())
	}
	if err := controller.Run(ctx); err != nil {
		return "", err
	}
	switch {
	case last == nil || !finished(last, order):
		return "", &cluster.Error{
			Class: cluster.Interrupted, Op: "carry out zones " + string(order.Verb), What: order.Zone, Err: context.Cause(ctx),
			Hint: "What was begun stays as it is; shardonnay zones status shows it, and the same command or a daemon goes on",
		}
	case last.Owner != nil:
		return "", &cluster.Error{Class: cluster.Rejected, Op: "run the zones", Err: fmt.Errorf("%s has begun to run them", last.Owner.Holder), Hint: "Give the order again"}
	case last.Hold != nil && order.Verb != zones.OrderResume && !zones.Refused(last.Result):
		return "", &cluster.Error{Class: cluster.Rejected, Op: "carry out zones " + string(order.Verb), What: order.Zone, Err: errors.New(last.Hold.Reason)}
	}
	return last.Result, nil
}

// finished tells whether nothing is left to be done for an order.
func finished(s *zones.Status, order zones.Order) bool {
	switch {
	case s.Owner != nil:
		return true
	case s.Handled != order.ID || s.Change != nil:
		return false
	case zones.Refused(s.Result) || s.Hold != nil:
		return true
	case order.Verb == zones.OrderOut, order.Verb == zones.OrderFence:
		return s.Write == zones.Gone || s.Write == zones.Idle
	case order.Verb == zones.OrderRecommission:
		return s.Write == zones.Idle
	}
	return true
}

func newZonesHold() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold",
		Short: "Keep the zones as they are: no rotation, no failover, until resume",
		Long: "For work on the cluster that the controller should not meddle with. It stops automatic failovers too: whoever holds watches. The hold\n" +
			"stands in the cluster's settings and outlives the daemon; zones resume ends it.",
		Example: "  shardonnay zones hold --config shardonnay.yaml --reason \"switches of zone b\" --yes\n  shardonnay zones hold --address http://localhost:9200",
	}
	asks := addAsking(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return setZones(cmd, asks, "the zones stay as they are, without rotation or failover, until zones resume", func(z *zonesAt, s *zones.Status) (string, any, error) {
			if s.Hold != nil && s.Hold.By != "shardonnay" {
				return "", nil, fmt.Errorf("%s holds already: %s", s.Hold.By, s.Hold.Reason)
			}
			return zones.HoldKey, inSetting(zones.Hold{Reason: cmp.Or(*asks.reason, "no reason given"), By: person(&z.config), Since: time.Now().UTC()}), nil
		})
	}
	return cmd
}

func newZonesPin() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin [ZONE]",
		Short: "Keep one zone the standby; with --off, let them rotate again",
		Long: "The pinned zone stands by from the next rotation on, which comes at once, and stays it. A failover goes on as ever: if a zone fails,\n" +
			"the pinned one serves.",
		Example: "  shardonnay zones pin c --config shardonnay.yaml --yes\n  shardonnay zones pin --off --yes",
		Args:    cobra.MaximumNArgs(1),
	}
	asks := addAsking(cmd)
	off := cmd.Flags().Bool("off", false, "no zone is pinned any more")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		zone := ""
		if len(args) == 1 {
			zone = args[0]
		}
		if (zone == "") != *off {
			return &cluster.Error{Class: cluster.Invalid, Op: "read the command line", Err: errors.New("pin takes a zone, or --off"), Hint: "See shardonnay zones pin --help"}
		}
		what := "zone " + zone + " becomes the standby as soon as the guards allow, and stays it"
		if *off {
			what = "the standby rotates among all zones again"
		}
		return setZones(cmd, asks, what, func(_ *zonesAt, s *zones.Status) (string, any, error) {
			if _, there := s.Zone(zone); zone != "" && !there {
				return "", nil, fmt.Errorf("there is no zone %q", zone)
			}
			if zone == "" {
				return zones.PinKey, nil, nil
			}
			return zones.PinKey, zone, nil
		})
	}
	return cmd
}

// setZones writes one setting that the daemon obeys from its next look on.
func setZones(cmd *cobra.Command, asks asking, what string, decide func(*zonesAt, *zones.Status) (key string, value any, err error)) error {
	return lookAtZones(cmd, func(z *zonesAt) error {
		s, orders, err := z.controller.Look(cmd.Context())
		if err != nil {
			return err
		}
		z.progress.done()
		op := "carry out " + cmd.CommandPath()[len("shardonnay "):]
		if s.Unsupported != "" {
			return &cluster.Error{Class: cluster.Rejected, Op: op, Err: errors.New(s.Unsupported)}
		}
		key, value, err := decide(z, s)
		if err != nil {
			return &cluster.Error{Class: cluster.Rejected, Op: op, Err: err}
		}
		body := inSetting(map[string]any{"persistent": map[string]any{key: value}})
		if !*asks.yes {
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n  PUT /_cluster/settings %s\n", what, body)
			return &cluster.Error{Class: cluster.Invalid, Op: op, Err: fmt.Errorf("this would be done on %s", z.identity.Name), Hint: "Add --yes to do it"}
		}
		if err := z.client.PutSettings(cmd.Context(), map[string]any{key: value}); err != nil {
			return err
		}
		if s.Owner == nil {
			what += "; no daemon runs the zones now, the next one obeys"
		}
		if *asks.output == asJSON {
			return printJSON(cmd.OutOrStdout(), map[string]any{"version": 1, "cluster": z.about(), "done": true, "result": what, "owner": orders.Owner})
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), what)
		return err
	})
}
