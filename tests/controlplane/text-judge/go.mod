module fixture

go 1.26.0

require (
	github.com/fluxcd/pkg/envsubst v1.7.1
	github.com/fluxcd/pkg/sourceignore v0.18.0
)
