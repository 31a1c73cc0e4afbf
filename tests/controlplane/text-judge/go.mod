module fixture

go 1.26.0

require (
	github.com/bmatcuk/doublestar/v4 v4.10.0
	github.com/fluxcd/pkg/envsubst v1.7.1
	github.com/fluxcd/pkg/sourceignore v0.18.0
	k8s.io/apimachinery v0.36.2
	sigs.k8s.io/yaml v1.6.0
)

require (
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
)
