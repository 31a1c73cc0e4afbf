//! Which proxy, if any, leads to the API server. kube matches NO_PROXY against the proxy's own address, and lets it
//! overrule the kubeconfig (reference rust-and-kube 2.2 trap 2), so the choice is made here.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use super::environment::Environment;
use crate::error::{Error, Result};

/// The proxy for a server: the kubeconfig's `proxy-url` whatever NO_PROXY says, else HTTPS_PROXY or HTTP_PROXY by the
/// server's scheme unless NO_PROXY covers the server. A loopback server is never reached through a proxy of the
/// environment. All as Go's net/http, and so kubectl, has it.
pub(crate) fn choose(server: &Uri, kubeconfig: Option<&str>, environment: &Environment) -> Result<Option<Uri>> {
    if let Some(url) = kubeconfig {
        return usable(url).map(Some).ok_or_else(|| unusable("the kubeconfig's proxy-url"));
    }
    let name = if server.scheme_str() == Some("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let Some(url) = either_case(environment, name).filter(|_| !is_loopback(server)) else {
        return Ok(None);
    };
    let exceptions = either_case(environment, "NO_PROXY").unwrap_or_default();
    let port = server.port_u16().unwrap_or(if name == "HTTPS_PROXY" { 443 } else { 80 });
    let exceptions: Vec<&str> = exceptions.split(',').filter_map(|entry| exception(entry.trim(), port)).collect();
    // The matcher takes `*` for names only. It gives the proxy's address without the credentials, so it only decides.
    if exceptions.contains(&"*") {
        return Ok(None);
    }
    let matcher = Matcher::builder().all("http://proxy").no(exceptions.join(",")).build();
    match matcher.intercept(server) {
        Some(_) => usable(url).map(Some).ok_or_else(|| unusable(name)),
        None => Ok(None),
    }
}

/// A variable in upper or lower case; upper case wins.
fn either_case<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.variable(name).or_else(|| environment.variable(&name.to_lowercase()))
}

/// An entry of NO_PROXY in the matcher's form: Go also knows `host:port` and `*.domain`.
fn exception(entry: &str, port: u16) -> Option<&str> {
    let entry = match entry.rsplit_once(':') {
        // One colon only, or one behind a bracket: the rest are IPv6 addresses.
        Some((host, digits)) if !host.contains(':') || host.ends_with(']') => {
            (digits.parse() == Ok(port)).then_some(host)?
        }
        _ => entry,
    };
    let entry = entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry);
    Some(entry.trim_start_matches('[').trim_end_matches(']'))
}

/// Returns true if the server is on this machine.
pub(crate) fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// A proxy URL of a scheme that can be used; without a scheme it is HTTP, `socks5h` is `socks5` (both let the proxy
/// resolve names). A socks proxy gets no credentials, so one that needs them is not usable.
fn usable(url: &str) -> Option<Uri> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let url = url.strip_prefix("socks5h://").map_or(url.clone(), |rest| format!("socks5://{rest}"));
    let uri: Uri = url.parse().ok()?;
    let credentials = uri.authority()?.as_str().contains('@');
    match uri.scheme_str()? {
        "http" | "https" => Some(uri),
        "socks5" if !credentials => Some(uri),
        _ => None,
    }
}

/// A proxy URL may hold a password, so it is not repeated.
fn unusable(origin: &str) -> Error {
    let error = Error::failed(format!("{origin} cannot be used as a proxy"));
    error.hint("proxies are http://, https:// or socks5:// (the last without a user and password)")
}

/// A proxy's address without credentials, for messages.
pub(crate) fn address(proxy: &Uri) -> String {
    let authority = proxy.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, address)| address).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{address, choose};
    use crate::cluster::config::environment::Environment;

    #[test]
    fn proxies() {
        const P: Option<&str> = Some("http://proxy:3128/");
        let https: &[(&str, &str)] = &[("HTTPS_PROXY", "http://proxy:3128")];
        let except = |list: &'static str| vec![("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", list)];
        let ten = "https://10.1.2.3:6443";
        let named = "https://api.k8s.example:6443";
        for (name, server, kubeconfig, variables, expected) in [
            ("none", ten, None, vec![], None),
            ("environment", ten, None, https.to_vec(), P),
            ("lower case", ten, None, vec![("https_proxy", "http://proxy:3128")], P),
            ("upper case wins", ten, None, vec![("https_proxy", "http://lower:1"), https[0]], P),
            ("empty upper case", ten, None, vec![("HTTPS_PROXY", ""), ("https_proxy", "http://proxy:3128")], P),
            ("without a scheme", ten, None, vec![("HTTPS_PROXY", "proxy:3128")], P),
            ("of another scheme", ten, None, vec![("HTTP_PROXY", "http://proxy:3128")], None),
            ("plain HTTP", "http://10.1.2.3", None, vec![("HTTP_PROXY", "http://proxy:3128")], P),
            ("credentials stay", ten, None, vec![("HTTPS_PROXY", "http://u:p%40@h:1")], Some("http://u:p%40@h:1/")),
            ("socks5h", ten, None, vec![("HTTPS_PROXY", "socks5h://h:1")], Some("socks5://h:1/")),
            ("NO_PROXY, network", ten, None, except("10.0.0.0/8"), None),
            ("NO_PROXY, the proxy's own address", ten, None, except("proxy,192.168.0.0/16"), P),
            ("NO_PROXY, address", ten, None, except("a.example, 10.1.2.3"), None),
            ("NO_PROXY, address and port", ten, None, except("10.1.2.3:6443"), None),
            ("NO_PROXY, another port", ten, None, except("10.1.2.3:443"), P),
            ("NO_PROXY, everything", ten, None, except("*"), None),
            ("NO_PROXY, empty entries", ten, None, except(",,"), P),
            ("NO_PROXY, domain", named, None, except("example"), None),
            ("NO_PROXY, domain with a dot", named, None, except(".k8s.example"), None),
            ("NO_PROXY, domain with a star", named, None, except("*.k8s.example"), None),
            ("NO_PROXY, part of a name", named, None, except("s.example"), P),
            ("NO_PROXY, IPv6", "https://[fd00::1]:6443", None, except("fd00::/8"), None),
            ("NO_PROXY, IPv6 and port", "https://[fd00::1]:6443", None, except("[fd00::1]:6443"), None),
            ("loopback", "https://127.0.0.1:6443", None, https.to_vec(), None),
            ("loopback name", "https://localhost:6443", None, https.to_vec(), None),
            ("loopback IPv6", "https://[::1]:6443", None, https.to_vec(), None),
            ("kubeconfig wins", ten, Some("http://other:1"), https.to_vec(), Some("http://other:1/")),
            ("kubeconfig, whatever NO_PROXY says", ten, Some("http://other:1"), except("*"), Some("http://other:1/")),
        ] {
            let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            let environment = Environment { variables, ..Environment::default() };
            let found = choose(&server.parse().expect(name), kubeconfig, &environment).expect(name);
            assert_eq!(found.map(|proxy| proxy.to_string()).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn proxies_that_cannot_be_used() {
        for url in ["ftp://h:1", "socks5://u:secret@h:1", "socks4://h:1", "http://", "http://secret@"] {
            let environment = Environment::default();
            let error = choose(&"https://x".parse().expect("a URL"), Some(url), &environment).expect_err(url);
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn an_address_has_no_credentials() {
        assert_eq!(address(&"http://u:p%40@h:1/".parse().expect("a URL")), "h:1");
    }
}
