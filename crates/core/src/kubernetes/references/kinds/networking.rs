//! Ingresses, Gateway API, and the kinds of controllers of networks.

use crate::kubernetes::references::kinds::kind::{
    CERT_MANAGER, EXPERIMENTAL_GATEWAY, Field, GATEWAY, ISSUER_ANNOTATIONS, Kind, NETWORKING, TRAEFIK, field, kind,
};
use crate::kubernetes::referrer::Usage;

const METALLB: &str = "metallb.io";

/// Fields of a route of Gateway API.
const ROUTE_FIELDS: &[Field] = &[
    field("spec/rules/*/backendRefs/*", "", "Service", Usage::RoutesTo),
    field("spec/rules/*/filters/*/requestMirror/backendRef", "", "Service", Usage::RoutesTo),
    field("spec/rules/*/filters/*/externalAuth/backendRef", "", "Service", Usage::Calls),
    field("spec/rules/*/filters/*/extensionRef", "", "", Usage::Uses),
    field("spec/rules/*/backendRefs/*/filters/*/requestMirror/backendRef", "", "Service", Usage::RoutesTo),
    field("spec/rules/*/backendRefs/*/filters/*/extensionRef", "", "", Usage::Uses),
    field("spec/parentRefs/*", GATEWAY, "Gateway", Usage::Uses),
];

/// Fields of a set of listeners that extends a Gateway.
const LISTENER_FIELDS: &[Field] = &[
    field("spec/parentRef", GATEWAY, "Gateway", Usage::Uses),
    field("spec/listeners/*/tls/certificateRefs/*", "", "Secret", Usage::Reads),
    field("spec/listeners/*/tls/frontendValidation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
];

/// Annotations of an Ingress: those of cert-manager, and the older way to name a class.
const INGRESS_ANNOTATIONS: &[Field] = &[
    field("cert-manager.io/issuer", CERT_MANAGER, "Issuer", Usage::Uses),
    field("cert-manager.io/cluster-issuer", CERT_MANAGER, "ClusterIssuer", Usage::Uses),
    field("kubernetes.io/ingress.class", NETWORKING, "IngressClass", Usage::Uses),
];

/// Fields of the TLS settings of a route of Traefik.
const TLS_FIELDS: &[Field] = &[
    field("secretName", "", "Secret", Usage::Reads),
    field("options", TRAEFIK, "TLSOption", Usage::Uses),
    field("store", TRAEFIK, "TLSStore", Usage::Uses),
];

/// Fields of what MetalLB advertises.
const ADVERTISED_FIELDS: &[Field] = &[field("spec/ipAddressPools/*", METALLB, "IPAddressPool", Usage::Uses)];

pub(super) const KINDS: &[Kind] = &[
    kind(NETWORKING, "Ingress").annotations(INGRESS_ANNOTATIONS).fields(&[
        field("spec/defaultBackend/service", "", "Service", Usage::RoutesTo),
        field("spec/rules/*/http/paths/*/backend/service", "", "Service", Usage::RoutesTo),
        field("spec/defaultBackend/resource", "", "", Usage::RoutesTo),
        field("spec/rules/*/http/paths/*/backend/resource", "", "", Usage::RoutesTo),
        field("spec/tls/*/secretName", "", "Secret", Usage::Reads),
        field("spec/ingressClassName", NETWORKING, "IngressClass", Usage::Uses),
    ]),
    kind(NETWORKING, "IngressClass").fields(&[field("spec/parameters", "", "", Usage::Uses)]),
    kind(TRAEFIK, "IngressRoute").parts(&[("spec/tls", TLS_FIELDS)]).fields(&[
        field("spec/routes/*/services/*", "", "Service", Usage::RoutesTo),
        field("spec/routes/*/middlewares/*", TRAEFIK, "Middleware", Usage::Uses),
    ]),
    kind(TRAEFIK, "TraefikService").fields(&[
        field("spec/weighted/services/*", "", "Service", Usage::RoutesTo),
        field("spec/mirroring", "", "Service", Usage::RoutesTo),
        field("spec/mirroring/mirrors/*", "", "Service", Usage::RoutesTo),
    ]),
    kind(GATEWAY, "ReferenceGrant"),
    kind(GATEWAY, "HTTPRoute").fields(ROUTE_FIELDS),
    kind(GATEWAY, "GRPCRoute").fields(ROUTE_FIELDS),
    kind(GATEWAY, "TLSRoute").fields(ROUTE_FIELDS),
    kind(GATEWAY, "TCPRoute").fields(ROUTE_FIELDS),
    kind(GATEWAY, "UDPRoute").fields(ROUTE_FIELDS),
    kind(GATEWAY, "BackendTLSPolicy").fields(&[
        field("spec/targetRefs/*", "", "Service", Usage::Uses),
        field("spec/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
    ]),
    kind(GATEWAY, "GatewayClass").fields(&[field("spec/parametersRef", "", "", Usage::Uses)]),
    kind(GATEWAY, "Gateway").annotations(ISSUER_ANNOTATIONS).fields(&[
        field("spec/gatewayClassName", GATEWAY, "GatewayClass", Usage::Uses),
        field("spec/listeners/*/tls/certificateRefs/*", "", "Secret", Usage::Reads),
        field("spec/listeners/*/tls/frontendValidation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
        field("spec/tls/frontend/default/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
        field("spec/tls/frontend/perPort/*/tls/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
        field("spec/tls/backend/clientCertificateRef", "", "Secret", Usage::Reads),
        field("spec/infrastructure/parametersRef", "", "", Usage::Uses),
    ]),
    kind(GATEWAY, "ListenerSet").annotations(ISSUER_ANNOTATIONS).fields(LISTENER_FIELDS),
    kind(EXPERIMENTAL_GATEWAY, "XListenerSet").annotations(ISSUER_ANNOTATIONS).fields(LISTENER_FIELDS),
    kind("inference.networking.k8s.io", "InferencePool").selector("spec/selector").fields(&[field(
        "spec/endpointPickerRef",
        "",
        "Service",
        Usage::Calls,
    )]),
    kind(TRAEFIK, "IngressRouteTCP").parts(&[("spec/tls", TLS_FIELDS)]).fields(&[
        field("spec/routes/*/services/*", "", "Service", Usage::RoutesTo),
        field("spec/routes/*/middlewares/*", TRAEFIK, "MiddlewareTCP", Usage::Uses),
    ]),
    kind(TRAEFIK, "IngressRouteUDP").fields(&[field("spec/routes/*/services/*", "", "Service", Usage::RoutesTo)]),
    kind(TRAEFIK, "Middleware").fields(&[
        field("spec/basicAuth/secret", "", "Secret", Usage::Reads),
        field("spec/digestAuth/secret", "", "Secret", Usage::Reads),
        field("spec/forwardAuth/tls/caSecret", "", "Secret", Usage::Reads),
        field("spec/forwardAuth/tls/certSecret", "", "Secret", Usage::Reads),
        field("spec/chain/middlewares/*", TRAEFIK, "Middleware", Usage::Uses),
        field("spec/errors/service", "", "Service", Usage::RoutesTo),
    ]),
    kind(TRAEFIK, "TLSOption").fields(&[field("spec/clientAuth/secretNames/*", "", "Secret", Usage::Reads)]),
    kind(TRAEFIK, "TLSStore").fields(&[
        field("spec/defaultCertificate/secretName", "", "Secret", Usage::Reads),
        field("spec/certificates/*/secretName", "", "Secret", Usage::Reads),
    ]),
    kind(TRAEFIK, "ServersTransport").fields(&[
        field("spec/rootCAsSecrets/*", "", "Secret", Usage::Reads),
        field("spec/certificatesSecrets/*", "", "Secret", Usage::Reads),
    ]),
    kind(METALLB, "L2Advertisement").fields(ADVERTISED_FIELDS),
    kind(METALLB, "BGPAdvertisement").fields(ADVERTISED_FIELDS),
    kind(METALLB, "IPAddressPool"),
    kind(METALLB, "BGPPeer").fields(&[
        field("spec/passwordSecret", "", "Secret", Usage::Reads),
        field("spec/bfdProfile", METALLB, "BFDProfile", Usage::Uses),
    ]),
];
