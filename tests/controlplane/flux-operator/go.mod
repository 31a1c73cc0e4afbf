module flux-operator

go 1.26.0

require (
	github.com/controlplaneio-fluxcd/flux-operator v0.58.1
	github.com/google/go-containerregistry/pkg/authn/kubernetes v0.0.0-20260114192324-795787c558e1
)
