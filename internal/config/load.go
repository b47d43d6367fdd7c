package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// envPrefix begins the name of every variable that sets a key: SHARDONNAY_CYCLE_INTERVAL for cycle.interval.
const envPrefix = "SHARDONNAY_"

// flagKey annotates a flag with the key it sets.
const flagKey = "shardonnay.config.key"

// BindFlag makes the flag of that name, already defined in flags, set a key. It panics where either does not exist.
func BindFlag(flags *pflag.FlagSet, name, key string) {
	if !slices.ContainsFunc(keys, func(k keyInfo) bool { return k.name == key }) {
		panic("config: flag --" + name + " is bound to " + key + ", which is no key")
	}
	if err := flags.SetAnnotation(name, flagKey, []string{key}); err != nil {
		panic("config: " + err.Error())
	}
}

// keyInfo is one key of the configuration.
type keyInfo struct {
	name    string // "cycle.interval"
	field   []int  // where it is in Config
	restart bool
}

var (
	keys     []keyInfo // in the order of Config
	sections = make(map[string]bool)
)

func init() {
	var walk func(t reflect.Type, prefix string, path []int)
	walk = func(t reflect.Type, prefix string, path []int) {
		for i := range t.NumField() {
			field := t.Field(i)
			tag := field.Tag.Get("key")
			if tag == "" {
				continue
			}
			at := append(slices.Clone(path), i)
			if field.Type.Kind() == reflect.Struct {
				sections[prefix+tag] = true
				walk(field.Type, prefix+tag+".", at)
				continue
			}
			keys = append(keys, keyInfo{prefix + tag, at, field.Tag.Get("restart") == "true"})
		}
	}
	walk(reflect.TypeFor[Config](), "", nil)
}

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Load reads the configuration: the file at path (none where path is empty), over it the environment, over that the
// flags bound by BindFlag that were given. The error is of class Invalid and names every fault at once.
func Load(path string, flags *pflag.FlagSet) (Config, error) {
	config := Default()
	l := loader{path: path, flags: make(map[string]*pflag.Flag)}
	file := l.readFile()
	v := viper.New()
	for _, k := range keys {
		v.SetDefault(k.name, config.at(k).Interface())
		if err := v.BindEnv(k.name, envName(k.name)); err != nil {
			panic("config: " + err.Error()) // only for an empty key
		}
		if value, given := file[k.name]; given {
			if err := v.MergeConfigMap(nest(k.name, value)); err != nil {
				l.fault(k.name, "%v", err)
			}
		}
	}
	l.bindFlags(v, flags)
	l.checkEnvironment()
	for _, k := range keys {
		if l.lines[k.name] == 0 && l.flags[k.name] == nil && os.Getenv(envName(k.name)) == "" {
			continue // the default needs no decoding
		}
		if err := decode(v.Get(k.name), config.at(k)); err != nil {
			l.fault(k.name, "%v", err)
		}
	}
	if config.Ownership.Holder == "" {
		config.Ownership.Holder = defaultHolder()
	}
	l.validate(&config)
	l.readSecrets(&config)
	return config, l.err()
}

// at is the field of a key.
func (c *Config) at(k keyInfo) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.field) }

// nest is {"a": {"b": value}} for a.b.
func nest(key string, value any) map[string]any {
	first, rest, more := strings.Cut(key, ".")
	if more {
		value = nest(rest, value)
	}
	return map[string]any{first: value}
}

// RestartNeeded lists the keys in which next differs from c and that take effect at the next start only.
func (c *Config) RestartNeeded(next *Config) []string {
	var names []string
	for _, k := range keys {
		if k.restart && !reflect.DeepEqual(c.at(k).Interface(), next.at(k).Interface()) {
			names = append(names, k.name)
		}
	}
	return names
}

// loader collects what one Load finds wrong.
type loader struct {
	path   string
	lines  map[string]int // where in the file a key is given
	flags  map[string]*pflag.Flag
	faults []fault
}

type fault struct {
	line int // 0 outside the file
	text string
}

// fault notes what is wrong with the value of a key, wherever it came from.
func (l *loader) fault(key, format string, args ...any) {
	text := key + ": " + fmt.Sprintf(format, args...)
	switch flag := l.flags[key]; {
	case flag != nil:
		l.faults = append(l.faults, fault{0, "--" + flag.Name + ": " + text})
	case os.Getenv(envName(key)) != "":
		l.faults = append(l.faults, fault{0, envName(key) + ": " + text})
	default:
		l.faults = append(l.faults, fault{l.lines[key], text})
	}
}

func (l *loader) err() error {
	if len(l.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(l.faults, func(a, b fault) int { return a.line - b.line })
	texts := make([]string, len(l.faults))
	for i, f := range l.faults {
		texts[i] = f.text
		if f.line > 0 {
			texts[i] = fmt.Sprintf("line %d: %s", f.line, f.text)
		}
	}
	text := texts[0]
	if len(texts) > 1 {
		text = fmt.Sprintf("%d faults\n  %s", len(texts), strings.Join(texts, "\n  "))
	}
	return &cluster.Error{Class: cluster.Invalid, Op: "read the configuration", What: l.path, Err: errors.New(text)}
}

// readFile gives the file's values by key. Keys it does not know are faults.
func (l *loader) readFile() map[string]any {
	l.lines = make(map[string]int)
	values := make(map[string]any)
	if l.path == "" {
		return values
	}
	content, err := os.ReadFile(l.path)
	if err != nil {
		l.faults = append(l.faults, fault{0, fmt.Sprintf("%v. Give an existing file with --config, or none for the defaults", err)})
		return values
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if len(bytes.TrimSpace(content)) > 0 && err.Error() != "EOF" {
			l.faults = append(l.faults, fault{0, fmt.Sprintf("not YAML: %v", err)})
		}
		return values
	}
	if err := decoder.Decode(new(yaml.Node)); err == nil {
		l.faults = append(l.faults, fault{0, "more than one YAML document; write everything in one"})
	}
	l.readSection(document.Content[0], "", values)
	return values
}

func (l *loader) readSection(node *yaml.Node, prefix string, values map[string]any) {
	report := func(line int, format string, args ...any) {
		l.faults = append(l.faults, fault{line, fmt.Sprintf(format, args...)})
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		if node.ShortTag() == "!!null" {
			return // a section with nothing in it, all of it commented out
		}
		if prefix == "" {
			report(node.Line, "the file does not consist of keys; configs/shardonnay.yaml shows how it looks")
		} else {
			report(node.Line, "%s: a value where keys are expected; write them below it, indented", strings.TrimSuffix(prefix, "."))
		}
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		key := prefix + name.Value
		if sections[key] {
			l.readSection(value, key+".", values)
			continue
		}
		at := slices.IndexFunc(keys, func(k keyInfo) bool { return k.name == key })
		switch {
		case secretKeys[key] != "":
			report(name.Line, "%s: a secret does not belong into this file; use %s or %s", key, secretKeys[key], envName(key))
		case at < 0:
			report(name.Line, "%s: no such key; %s", key, suggestion(key, func(key string) string { return key }))
		case l.lines[key] > 0:
			report(name.Line, "%s: given twice, first in line %d; keep one", key, l.lines[key])
		case value.ShortTag() == "!!null":
			def := Default()
			report(name.Line, "%s: no value; give one or leave the key out for its default (%s)", key, show(def.at(keys[at])))
		default:
			l.lines[key] = name.Line
			var decoded any
			if err := value.Decode(&decoded); err != nil {
				report(value.Line, "%s: %v", key, err)
				continue
			}
			values[key] = decoded
		}
	}
}

// bindFlags hands the flags that were given to viper.
func (l *loader) bindFlags(v *viper.Viper, flags *pflag.FlagSet) {
	if flags == nil {
		return
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if key := flag.Annotations[flagKey]; len(key) == 1 && flag.Changed {
			l.flags[key[0]] = flag
			if err := v.BindPFlag(key[0], flag); err != nil {
				panic("config: " + err.Error()) // only for a missing flag
			}
		}
	})
}

// checkEnvironment finds variables that begin like a section of ours and name no key. Others are left alone: Kubernetes
// adds SHARDONNAY_SERVICE_HOST and its like to every container beside a Service of that name.
func (l *loader) checkEnvironment() {
	known := make(map[string]bool)
	for _, k := range keys {
		known[envName(k.name)] = true
	}
	for key := range secretKeys {
		known[envName(key)] = true
	}
	for _, variable := range slices.Sorted(slices.Values(os.Environ())) {
		name, value, _ := strings.Cut(variable, "=")
		if known[name] || value == "" {
			continue
		}
		for section := range sections {
			if section := envName(section); name == section || strings.HasPrefix(name, section+"_") {
				key := strings.ToLower(strings.TrimPrefix(name, envPrefix))
				l.faults = append(l.faults, fault{0, fmt.Sprintf("%s: no such key; %s", name, suggestion(key, envName))})
				break
			}
		}
	}
}

// suggestion names what was probably meant, spelled as it has to be.
func suggestion(wrong string, spell func(key string) string) string {
	plain := func(key string) string { return strings.ReplaceAll(key, "_", ".") }
	last := func(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }
	wrong = plain(wrong)
	best, bestDistance := "", 1+len(wrong)/4 // further away it is a guess
	consider := func(name string, d int) {
		if d <= bestDistance {
			best, bestDistance = name, d-1
		}
	}
	for _, k := range keys {
		consider(k.name, distance(wrong, plain(k.name)))
	}
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		consider(section, distance(wrong, section))
	}
	for _, k := range keys { // the right key in a wrong section
		if best == "" && strings.HasSuffix(wrong, "."+plain(last(k.name))) {
			best = k.name
		}
	}
	switch best {
	case "":
		return "configs/shardonnay.yaml lists all keys"
	case wrong:
		return spell(best) + " is a section, set its keys"
	}
	return "was " + spell(best) + " meant?"
}

// distance is how many letters have to be inserted, deleted or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// decode puts a raw value, as YAML, environment or a flag gave it, into a field.
func decode(raw any, field reflect.Value) error {
	text := strings.TrimSpace(fmt.Sprint(raw))
	if field.Kind() == reflect.Slice {
		return decodeList(raw, field)
	}
	switch raw.(type) {
	case []any, map[string]any:
		return errors.New("a list or a section where one value is expected")
	}
	if target, ok := reflect.TypeAssert[encoding.TextUnmarshaler](field.Addr()); ok {
		return target.UnmarshalText([]byte(text))
	}
	switch field.Interface().(type) {
	case time.Duration:
		d, err := cluster.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration; write for example 30s, 10m, 2h or 7d", text)
		}
		field.SetInt(int64(d))
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		field.SetBool(b)
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		field.SetInt(int64(n))
	case float64:
		number, percent := strings.CutSuffix(text, "%")
		f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || f != f {
			return fmt.Errorf("%q is not a number", text)
		}
		if percent {
			f /= 100
		}
		field.SetFloat(f)
	default:
		field.SetString(text)
	}
	return nil
}

// decodeList takes a YAML list, or text with commas as environment and flags give it. Nothing is an empty list.
func decodeList(raw any, field reflect.Value) error {
	var items []any
	switch raw := raw.(type) {
	case []any:
		items = raw
	case []string: // a flag that is a list itself
		for _, item := range raw {
			items = append(items, item)
		}
	case map[string]any:
		return errors.New("a section where a list is expected")
	default:
		for item := range strings.SplitSeq(fmt.Sprint(raw), ",") {
			if strings.TrimSpace(item) != "" {
				items = append(items, item)
			}
		}
	}
	list := reflect.New(field.Type()).Elem()
	for _, item := range items {
		element := reflect.New(field.Type().Elem()).Elem()
		if err := decode(item, element); err != nil {
			return err
		}
		list = reflect.Append(list, element)
	}
	field.Set(list)
	return nil
}

// show is a value as it would be written in the file.
func show(field reflect.Value) string {
	switch value := field.Interface().(type) {
	case string:
		return strconv.Quote(value)
	case time.Duration:
		return duration(value)
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	if field.Kind() == reflect.Slice {
		items := make([]string, field.Len())
		for i := range items {
			items[i] = fmt.Sprint(field.Index(i).Interface())
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(field.Interface())
}

// duration writes 5m rather than 5m0s.
func duration(d time.Duration) string {
	text := d.String()
	if d%time.Hour == 0 && d != 0 {
		return strings.TrimSuffix(text, "0m0s")
	}
	if d%time.Minute == 0 && d != 0 {
		return strings.TrimSuffix(text, "0s")
	}
	return text
}
