//! Ingresses, Gateway API, and the kinds of controllers of networks.

use crate::kubernetes::references::kinds::kind::{
    CERT_MANAGER, EXPERIMENTAL_GATEWAY, Field, GATEWAY, ISSUER_ANNOTATIONS, Kind, NETWORKING, NOTHING, TRAEFIK, field,
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
    Kind {
        group: NETWORKING,
        kind: "Ingress",
        fields: &[
            field("spec/defaultBackend/service", "", "Service", Usage::RoutesTo),
            field("spec/rules/*/http/paths/*/backend/service", "", "Service", Usage::RoutesTo),
            field("spec/defaultBackend/resource", "", "", Usage::RoutesTo),
            field("spec/rules/*/http/paths/*/backend/resource", "", "", Usage::RoutesTo),
            field("spec/tls/*/secretName", "", "Secret", Usage::Reads),
            field("spec/ingressClassName", NETWORKING, "IngressClass", Usage::Uses),
        ],
        annotations: INGRESS_ANNOTATIONS,
        ..NOTHING
    },
    Kind {
        group: NETWORKING,
        kind: "IngressClass",
        fields: &[field("spec/parameters", "", "", Usage::Uses)],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "IngressRoute",
        parts: &[("spec/tls", TLS_FIELDS)],
        fields: &[
            field("spec/routes/*/services/*", "", "Service", Usage::RoutesTo),
            field("spec/routes/*/middlewares/*", TRAEFIK, "Middleware", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "TraefikService",
        fields: &[
            field("spec/weighted/services/*", "", "Service", Usage::RoutesTo),
            field("spec/mirroring", "", "Service", Usage::RoutesTo),
            field("spec/mirroring/mirrors/*", "", "Service", Usage::RoutesTo),
        ],
        ..NOTHING
    },
    Kind { group: GATEWAY, kind: "ReferenceGrant", ..NOTHING },
    Kind { group: GATEWAY, kind: "HTTPRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind { group: GATEWAY, kind: "GRPCRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind { group: GATEWAY, kind: "TLSRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind { group: GATEWAY, kind: "TCPRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind { group: GATEWAY, kind: "UDPRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind {
        group: GATEWAY,
        kind: "BackendTLSPolicy",
        fields: &[
            field("spec/targetRefs/*", "", "Service", Usage::Uses),
            field("spec/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: GATEWAY,
        kind: "GatewayClass",
        fields: &[field("spec/parametersRef", "", "", Usage::Uses)],
        ..NOTHING
    },
    Kind {
        group: GATEWAY,
        kind: "Gateway",
        fields: &[
            field("spec/gatewayClassName", GATEWAY, "GatewayClass", Usage::Uses),
            field("spec/listeners/*/tls/certificateRefs/*", "", "Secret", Usage::Reads),
            field("spec/listeners/*/tls/frontendValidation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
            field("spec/tls/frontend/default/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
            field("spec/tls/frontend/perPort/*/tls/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
            field("spec/tls/backend/clientCertificateRef", "", "Secret", Usage::Reads),
            field("spec/infrastructure/parametersRef", "", "", Usage::Uses),
        ],
        annotations: ISSUER_ANNOTATIONS,
        ..NOTHING
    },
    Kind { group: GATEWAY, kind: "ListenerSet", fields: LISTENER_FIELDS, annotations: ISSUER_ANNOTATIONS, ..NOTHING },
    Kind {
        group: EXPERIMENTAL_GATEWAY,
        kind: "XListenerSet",
        fields: LISTENER_FIELDS,
        annotations: ISSUER_ANNOTATIONS,
        ..NOTHING
    },
    Kind {
        group: "inference.networking.k8s.io",
        kind: "InferencePool",
        selector: Some("spec/selector"),
        fields: &[field("spec/endpointPickerRef", "", "Service", Usage::Calls)],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "IngressRouteTCP",
        parts: &[("spec/tls", TLS_FIELDS)],
        fields: &[
            field("spec/routes/*/services/*", "", "Service", Usage::RoutesTo),
            field("spec/routes/*/middlewares/*", TRAEFIK, "MiddlewareTCP", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "IngressRouteUDP",
        fields: &[field("spec/routes/*/services/*", "", "Service", Usage::RoutesTo)],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "Middleware",
        fields: &[
            field("spec/basicAuth/secret", "", "Secret", Usage::Reads),
            field("spec/digestAuth/secret", "", "Secret", Usage::Reads),
            field("spec/forwardAuth/tls/caSecret", "", "Secret", Usage::Reads),
            field("spec/forwardAuth/tls/certSecret", "", "Secret", Usage::Reads),
            field("spec/chain/middlewares/*", TRAEFIK, "Middleware", Usage::Uses),
            field("spec/errors/service", "", "Service", Usage::RoutesTo),
        ],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "TLSOption",
        fields: &[field("spec/clientAuth/secretNames/*", "", "Secret", Usage::Reads)],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "TLSStore",
        fields: &[
            field("spec/defaultCertificate/secretName", "", "Secret", Usage::Reads),
            field("spec/certificates/*/secretName", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "ServersTransport",
        fields: &[
            field("spec/rootCAsSecrets/*", "", "Secret", Usage::Reads),
            field("spec/certificatesSecrets/*", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind { group: METALLB, kind: "L2Advertisement", fields: ADVERTISED_FIELDS, ..NOTHING },
    Kind { group: METALLB, kind: "BGPAdvertisement", fields: ADVERTISED_FIELDS, ..NOTHING },
    Kind { group: METALLB, kind: "IPAddressPool", ..NOTHING },
    Kind {
        group: METALLB,
        kind: "BGPPeer",
        fields: &[
            field("spec/passwordSecret", "", "Secret", Usage::Reads),
            field("spec/bfdProfile", METALLB, "BFDProfile", Usage::Uses),
        ],
        ..NOTHING
    },
];
