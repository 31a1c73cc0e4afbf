// Command kustomize-judge builds trees as kustomize-controller does, and reads texts as Flux and kustomize do.
//
// Each line of stdin is a JSON question, each line of stdout its answer. Nothing reaches the network: HTTP requests fail
// and are counted, and so are calls of git, which is replaced by a program that fails.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/fluxcd/pkg/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// question is a tree to build, a text to read, or a request for the fields of a kustomization file.
type question struct {
	Files  map[string][]byte `json:"files"`
	Spec   map[string]any    `json:"spec"`
	Text   *[]byte           `json:"text"`
	Fields bool              `json:"fields"`
}

type answer struct {
	// The generated kustomization file, as JSON.
	Generated json.RawMessage `json:"generated,omitempty"`
	Output    *string         `json:"output,omitempty"`
	Error     string          `json:"error,omitempty"`
	// Requests and calls of git.
	Contacts int64 `json:"contacts"`
	// What YAMLToJSON returns, the file that Flux writes, and the file that kustomize reads; null for an error.
	Value  json.RawMessage `json:"value,omitempty"`
	Root   json.RawMessage `json:"root,omitempty"`
	Nested json.RawMessage `json:"nested,omitempty"`
	Fields any             `json:"fields,omitempty"`
}

var requests atomic.Int64

type noNetwork struct{}

func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	requests.Add(1)
	return nil, errors.New("there is no network")
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	home, err := os.MkdirTemp("", "judge-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	http.DefaultTransport = noNetwork{}
	calls := filepath.Join(home, "calls")
	script := "#!/bin/sh\necho >>'" + calls + "'\nexit 1\n"
	if err := os.WriteFile(filepath.Join(home, "git"), []byte(script), 0o700); err != nil {
		return err
	}
	os.Setenv("PATH", home)
	os.Setenv("HOME", home)
	os.Setenv("TMPDIR", home)

	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return nil
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		var a answer
		switch {
		case q.Fields:
			a.Fields = fields(reflect.TypeOf(types.Kustomization{}), false)
		case q.Text != nil:
			a = read(*q.Text)
		default:
			os.Remove(calls)
			requests.Store(0)
			a = build(filepath.Join(home, "tree"), q)
			log, _ := os.ReadFile(calls)
			a.Contacts = requests.Load() + int64(len(log))
		}
		if err := json.NewEncoder(out).Encode(a); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// build does what the controller does between the download of an artifact and the substitution of variables.
func build(root string, q question) (a answer) {
	defer os.RemoveAll(root)
	for path, content := range q.Files {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return answer{Error: err.Error()}
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return answer{Error: err.Error()}
		}
	}
	defer func() {
		if r := recover(); r != nil {
			a.Output, a.Error = nil, fmt.Sprintf("panic: %v", r)
		}
		a.Error = strings.ReplaceAll(a.Error, root, "")
	}()
	path, _ := q.Spec["path"].(string)
	directory := filepath.Join(root, filepath.Join("/", path))
	owner := unstructured.Unstructured{Object: map[string]any{"spec": q.Spec}}
	generator := kustomize.NewGenerator(root, owner)
	manifest, _, _, err := generator.GenerateManifest(directory)
	if err != nil {
		return answer{Error: err.Error()}
	}
	a.Generated, _ = yaml.YAMLToJSON(manifest)
	if _, err := generator.WriteFile(directory); err != nil {
		a.Error = err.Error()
		return a
	}
	objects, err := kustomize.SecureBuild(root, directory, true)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	text, err := objects.AsYaml()
	if err != nil {
		a.Error = err.Error()
		return a
	}
	output := string(text)
	a.Output = &output
	return a
}

func read(text []byte) (a answer) {
	a.Value, _ = yaml.YAMLToJSON(text)
	var root types.Kustomization
	if err := yaml.Unmarshal(text, &root); err == nil {
		a.Root, _ = json.Marshal(root)
	}
	var nested types.Kustomization
	if err := nested.Unmarshal(text); err == nil {
		a.Nested, _ = json.Marshal(nested)
	}
	return a
}

// fields describes the JSON of a type: a map of a struct's fields, a list with the type of its elements, or a name. In a
// field of an embedded struct, sigs.k8s.io/yaml turns no number into text: its strings are exact.
func fields(t reflect.Type, embedded bool) any {
	switch t.Kind() {
	case reflect.Pointer:
		return fields(t.Elem(), embedded)
	case reflect.Slice:
		return []any{fields(t.Elem(), embedded)}
	case reflect.Map:
		return map[string]any{"*": fields(t.Elem(), embedded)}
	case reflect.Struct:
		found := map[string]any{}
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case !field.IsExported() || name == "-":
			case field.Anonymous && name == "":
				for name, inner := range fields(field.Type, true).(map[string]any) {
					found[name] = inner
				}
			case name == "":
				found[field.Name] = fields(field.Type, embedded)
			default:
				found[name] = fields(field.Type, embedded)
			}
		}
		return found
	case reflect.String:
		if embedded {
			return "exact string"
		}
		return "string"
	default:
		return t.Kind().String()
	}
}
