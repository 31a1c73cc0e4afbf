// Answers questions about texts with the modules that Flux uses.
//
// Standard input has one JSON question per line, standard output one JSON answer per line. Texts are base64, because they
// need not be UTF-8.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/sourceignore"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// question has one of its fields set.
type question struct {
	Envsubst *struct {
		Text      []byte            `json:"text"`
		Variables map[string][]byte `json:"variables"`
		Strict    bool              `json:"strict"`
	} `json:"envsubst"`
	Ignore *struct {
		// Files are ignore files in order of priority, with their directory.
		Files []struct {
			Directory []string `json:"directory"`
			Text      []byte   `json:"text"`
		} `json:"files"`
		Path        []string `json:"path"`
		IsDirectory bool     `json:"isDirectory"`
	} `json:"ignore"`
	Glob *struct {
		Pattern []byte `json:"pattern"`
		Text    []byte `json:"text"`
	} `json:"glob"`
	Exclusion *struct {
		Pattern []byte `json:"pattern"`
		Text    []byte `json:"text"`
	} `json:"exclusion"`
	// Merge has the files of a merge, the lower one first.
	Merge [][]byte `json:"merge"`
}

type answer struct {
	Text    []byte `json:"text"`
	Matches bool   `json:"matches"`
	Error   string `json:"error"`
}

func main() {
	questions := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	decoder, encoder := json.NewDecoder(questions), json.NewEncoder(answers)
	for decoder.More() {
		var asked question
		if err := decoder.Decode(&asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := encoder.Encode(judge(asked)); err != nil {
			os.Exit(1)
		}
	}
}

// judge recovers from panics, as a controller does, and reports them as errors.
func judge(asked question) (given answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			given = answer{Error: fmt.Sprint("panic: ", panicked)}
		}
	}()
	switch {
	case asked.Envsubst != nil:
		return substitute(asked)
	case asked.Ignore != nil:
		return ignore(asked)
	case asked.Glob != nil:
		matches, err := filepath.Match(string(asked.Glob.Pattern), string(asked.Glob.Text))
		return answer{Matches: matches, Error: text(err)}
	case asked.Exclusion != nil:
		return exclude(string(asked.Exclusion.Pattern), string(asked.Exclusion.Text))
	case asked.Merge != nil:
		return merge(asked.Merge)
	}
	return answer{Error: "no question"}
}

// exclude matches as source-watcher does: it checks a pattern once, and not again when it matches.
func exclude(pattern, path string) answer {
	if _, err := doublestar.Match(pattern, "."); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Matches: doublestar.MatchUnvalidated(pattern, path)}
}

// merge reads the documents of each file into one value, merges these values, and writes the result.
func merge(files [][]byte) answer {
	merged := map[string]any{}
	for _, file := range files {
		loaded := map[string]any{}
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return answer{Error: err.Error()}
			}
			values := map[string]any{}
			if err := yaml.Unmarshal(document, &values); err != nil {
				return answer{Error: err.Error()}
			}
			overlay(loaded, values)
		}
		overlay(merged, loaded)
	}
	written, err := yaml.Marshal(merged)
	return answer{Text: written, Error: text(err)}
}

func overlay(lower, upper map[string]any) {
	for key, value := range upper {
		inner, isMap := value.(map[string]any)
		below, hasMap := lower[key].(map[string]any)
		if isMap && hasMap {
			overlay(below, inner)
			continue
		}
		lower[key] = value
	}
}

func substitute(asked question) answer {
	result, err := envsubst.Eval(string(asked.Envsubst.Text), func(name string) (string, bool) {
		value, found := asked.Envsubst.Variables[name]
		return string(value), found || !asked.Envsubst.Strict
	})
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Text: []byte(result)}
}

// ignore builds the matcher as source-controller does when it packs an artifact.
func ignore(asked question) answer {
	patterns := sourceignore.VCSPatterns(nil)[:0]
	for _, file := range asked.Ignore.Files {
		read := sourceignore.ReadPatterns(strings.NewReader(string(file.Text)), file.Directory)
		patterns = append(patterns, read...)
	}
	matcher := sourceignore.NewDefaultMatcher(patterns, nil)
	if len(patterns) > 0 {
		matcher = sourceignore.NewMatcher(append(sourceignore.VCSPatterns(nil), patterns...))
	}
	return answer{Matches: matcher.Match(asked.Ignore.Path, asked.Ignore.IsDirectory)}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
