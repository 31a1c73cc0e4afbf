//! Which proxy, if any, leads to the API server. kube matches NO_PROXY against the proxy's own address, and lets it
//! overrule the kubeconfig (reference rust-and-kube 2.2 trap 2), so the choice is made here.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use super::environment::Environment;
use crate::error::{Error, Result};

/// The proxy for a server: the kubeconfig's `proxy-url` whatever NO_PROXY says, else HTTPS_PROXY or HTTP_PROXY by the
/// server's scheme unless NO_PROXY covers the server. A loopback server is never reached through a proxy of the
/// environment. All as Go's net/http, and so kubectl, has it.
pub(super) fn choose(server: &Uri, kubeconfig: Option<&str>, environment: &Environment) -> Result<Option<Uri>> {
    if let Some(url) = kubeconfig {
        return usable(url).map(Some).ok_or_else(|| unusable("the kubeconfig's proxy-url"));
    }
    let host = server.host().unwrap_or_default();
    let name = if server.scheme_str() == Some("https") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let Some(url) = either_case(environment, name).filter(|_| !is_loopback(host)) else {
        return Ok(None);
    };
    let exceptions = either_case(environment, "NO_PROXY").unwrap_or_default();
    let port = server.port_u16().unwrap_or(if name == "HTTPS_PROXY" { 443 } else { 80 });
    let exceptions: Vec<&str> = exceptions.split(',').filter_map(|entry| exception(entry.trim(), port)).collect();
    // The matcher gives the proxy's address without the credentials, so it only decides.
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

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
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
pub(super) fn address(proxy: &Uri) -> String {
    let authority = proxy.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, address)| address).to_owned()
}
