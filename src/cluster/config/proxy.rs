//! Selects the proxy for the API server. kube matches NO_PROXY against the proxy's address, and lets it override the
//! kubeconfig (docs/reference/kubectl-plugin.md 6.2).

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use super::environment::Environment;
use crate::error::{Error, Result};

/// Returns the proxy for a server, as Go's net/http does: the kubeconfig's `proxy-url` regardless of NO_PROXY, else
/// HTTPS_PROXY or HTTP_PROXY by the server's scheme, unless NO_PROXY matches or the server is on loopback.
pub(crate) fn select(server: &Uri, kubeconfig: Option<&str>, environment: &Environment) -> Result<Option<Uri>> {
    if let Some(url) = kubeconfig {
        return parse_proxy(url).map(Some).ok_or_else(|| invalid_proxy("the kubeconfig's proxy-url"));
    }
    let name = if server.scheme_str() == Some("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let Some(url) = either_case(environment, name).filter(|_| !is_loopback(server)) else {
        return Ok(None);
    };
    let listed = either_case(environment, "NO_PROXY").unwrap_or_default();
    let port = server.port_u16().unwrap_or(if name == "HTTPS_PROXY" { 443 } else { 80 });
    let exceptions: Vec<&str> = listed.split(',').filter_map(|entry| exception(entry.trim(), port)).collect();
    // The matcher applies `*` to names only. Its result lacks the proxy's credentials, so only its decision is used.
    if exceptions.contains(&"*") {
        return Ok(None);
    }
    let matcher = Matcher::builder().all("http://proxy").no(exceptions.join(",")).build();
    match matcher.intercept(server) {
        Some(_) => parse_proxy(url).map(Some).ok_or_else(|| invalid_proxy(name)),
        None => Ok(None),
    }
}

/// Returns a variable in upper case, or else in lower case.
fn either_case<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.variable(name).or_else(|| environment.variable(&name.to_lowercase()))
}

/// Converts an entry of NO_PROXY for the matcher, which lacks Go's `host:port` and `*.domain`.
fn exception(entry: &str, port: u16) -> Option<&str> {
    let entry = match entry.rsplit_once(':') {
        // Other entries with a colon are IPv6 addresses.
        Some((host, digits)) if !host.contains(':') || host.ends_with(']') => {
            (digits.parse() == Ok(port)).then_some(host)?
        }
        _ => entry,
    };
    let suffix = entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry);
    Some(suffix.trim_start_matches('[').trim_end_matches(']'))
}

/// Returns true if the server is on this machine.
pub(crate) fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Parses a proxy URL. The default scheme is HTTP; `socks5h` is `socks5` (both let the proxy resolve names). Rejects SOCKS
/// proxies with credentials, because the client does not send them.
fn parse_proxy(url: &str) -> Option<Uri> {
    let uri: Uri = match url.split_once("://") {
        Some(("socks5h", rest)) => format!("socks5://{rest}").parse(),
        Some(_) => url.parse(),
        None => format!("http://{url}").parse(),
    }
    .ok()?;
    let credentials = uri.authority()?.as_str().contains('@');
    match uri.scheme_str()? {
        "http" | "https" => Some(uri),
        "socks5" if !credentials => Some(uri),
        _ => None,
    }
}

/// Returns an error that does not quote the URL, which may contain a password.
fn invalid_proxy(origin: &str) -> Error {
    let error = Error::failed(format!("{origin} cannot be used as a proxy"));
    error.hint("proxies are http://, https:// or socks5:// (the last without a user and password)")
}

/// Returns the address of a proxy without credentials, for messages.
pub(crate) fn address(proxy: &Uri) -> String {
    let authority = proxy.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, address)| address).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{address, select};
    use crate::cluster::config::environment::Environment;

    #[test]
    fn proxy_selection() {
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
            let found = select(&server.parse().expect(name), kubeconfig, &environment).expect(name);
            assert_eq!(found.map(|proxy| proxy.to_string()).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn invalid_proxies() {
        for url in ["ftp://h:1", "socks5://u:secret@h:1", "socks4://h:1", "http://", "http://secret@"] {
            let environment = Environment::default();
            let error = select(&"https://x".parse().expect("a URL"), Some(url), &environment).expect_err(url);
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn address_omits_credentials() {
        assert_eq!(address(&"http://u:p%40@h:1/".parse().expect("a URL")), "h:1");
    }
}
