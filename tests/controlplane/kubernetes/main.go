// Runs kubectl commands in one process, which saves the start of a process and a connection for each.
//
// Standard input has one JSON command per line, standard output one JSON result per line, in the order in which the commands
// end. The end of standard input ends the process.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

type command struct {
	ID   uint64   `json:"id"`
	Args []string `json:"args"`
	// Stdin is what the argument `-` stands for.
	Stdin string `json:"stdin"`
}

type result struct {
	ID     uint64 `json:"id"`
	Code   int    `json:"code"`
	Stdout []byte `json:"stdout"`
	Stderr []byte `json:"stderr"`
}

// exit takes the place of the end of the process.
type exit struct {
	message string
	code    int
}

// starting guards the globals that kubectl writes until a command runs.
var starting sync.Mutex

func main() {
	// The user agent of each request, which the API server also takes as name of a field manager, begins with it.
	os.Args[0] = "kubectl"
	util.BehaviorOnFatal(func(message string, code int) { panic(exit{message, code}) })
	results := json.NewEncoder(os.Stdout)
	var writing sync.Mutex
	commands := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	for {
		var next command
		if commands.Decode(&next) != nil {
			return
		}
		go func() {
			done := run(next)
			writing.Lock()
			defer writing.Unlock()
			if results.Encode(done) != nil {
				os.Exit(1)
			}
		}()
	}
}

// run runs one command as the program kubectl does.
func run(given command) (done result) {
	var stdout, stderr bytes.Buffer
	done.ID = given.ID
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case exit:
			done.Code = ended.code
			fmt.Fprintln(&stderr, strings.TrimSuffix(ended.message, "\n"))
		default:
			panic(ended)
		}
		done.Stdout, done.Stderr = stdout.Bytes(), stderr.Bytes()
	}()
	streams := genericiooptions.IOStreams{In: strings.NewReader(given.Stdin), Out: &stdout, ErrOut: &stderr}
	if at := slices.Index(given.Args, "-"); at >= 0 {
		// kubectl reads manifests from the standard input of the process, whatever its streams are.
		file, err := manifest(given.Stdin)
		util.CheckErr(err)
		defer os.Remove(file)
		given.Args[at] = file
	}
	starting.Lock()
	started := sync.OnceFunc(starting.Unlock)
	defer started()
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50.0)
	kubectl := cmd.NewKubectlCommand(cmd.KubectlOptions{
		Arguments:   append([]string{"kubectl"}, given.Args...),
		ConfigFlags: flags.WithWarningPrinter(streams),
		IOStreams:   streams,
	})
	prepare := kubectl.PersistentPreRunE
	kubectl.PersistentPreRunE = func(command *cobra.Command, args []string) error {
		defer started()
		return prepare(command, args)
	}
	kubectl.SetArgs(given.Args)
	kubectl.SetIn(streams.In)
	kubectl.SetOut(streams.Out)
	kubectl.SetErr(streams.ErrOut)
	util.CheckErr(cli.RunNoErrOutput(kubectl))
	return
}

// manifest writes a text to a temporary file and returns its name.
func manifest(text string) (string, error) {
	file, err := os.CreateTemp("", "manifest-*.yaml")
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = file.WriteString(text)
	return file.Name(), err
}
