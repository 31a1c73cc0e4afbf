//! A proxy on the loopback interface for one child that fetches: it reaches the address that the child is started for, and public ones.
//!
//! The server of a repository decides where a client goes next, with redirects, the addresses in its index, and the token service of a
//! registry. It must not be able to send the client into the network of the machine, such as to the metadata service of a cloud.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// Time limit for a connection to a server.
const CONNECT: Duration = Duration::from_secs(20);
/// Largest head of a request, in bytes.
const HEAD: usize = 64 << 10;

/// Host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
}

impl Target {
    /// Returns the server of a URL. `port` is that of a URL that names none.
    pub fn of_url(url: &http::Uri, port: u16) -> Option<Self> {
        let host = url.host()?.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        Some(Self { host, port: url.port_u16().unwrap_or(port) })
    }

    /// Returns true for an address of this machine, to which Go uses no proxy (net/http `ProxyFromEnvironment`).
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// The proxy; it ends when it is dropped.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    named: Target,
    refused: Arc<Mutex<BTreeSet<String>>>,
    task: JoinHandle<()>,
}

impl Gate {
    /// Starts a proxy for the clients of one server.
    ///
    /// Fails if no port is free.
    pub async fn open(named: Target) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (port, refused) = (listener.local_addr()?.port(), Arc::<Mutex<BTreeSet<String>>>::default());
        let task = tokio::spawn(accept(listener, named.clone(), refused.clone()));
        Ok(Self { port, named, refused, task })
    }

    /// Returns its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the ports to which a client connects: that of the proxy, and that of a server on this machine, for which Go uses no proxy.
    pub fn ports(&self) -> BTreeSet<u16> {
        [self.port].into_iter().chain(self.named.is_loopback().then_some(self.named.port)).collect()
    }

    /// Returns the servers to which it let nobody, as HOST:PORT.
    pub fn refused(&self) -> BTreeSet<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, named: Target, refused: Arc<Mutex<BTreeSet<String>>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let (named, refused) = (named.clone(), refused.clone());
        // A connection that breaks is the client's to report.
        connections.spawn(async move { drop(serve(client, &named, &refused).await) });
    }
}

async fn serve(mut client: TcpStream, named: &Target, refused: &Mutex<BTreeSet<String>>) -> io::Result<()> {
    let received = read_head(&mut client).await?;
    let Some(request) = Request::parse(&received) else {
        return refuse(&mut client, "this is no request to a proxy").await;
    };
    let Target { host, port } = &request.target;
    let mut server = match connect(&request.target, named).await {
        Ok(server) => server,
        Err(Unreached::Refused) => {
            refused.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{host}:{port}"));
            return refuse(
                &mut client,
                &format!("{host}:{port} is neither the address of the source nor a public one"),
            )
            .await;
        }
        Err(Unreached::Failed(why)) => return refuse(&mut client, &why).await,
    };
    match &request.forwarded {
        None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        Some(head) => server.write_all(head).await?,
    }
    server.write_all(request.rest).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

async fn refuse(client: &mut TcpStream, why: &str) -> io::Result<()> {
    let line: String = why.chars().filter(|c| !c.is_control()).collect();
    client.write_all(format!("HTTP/1.1 502 {line}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").as_bytes()).await
}

/// Reads until the end of the head of a request. What follows it may be there too.
async fn read_head(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut received = vec![];
    while end_of_head(&received).is_none() {
        if received.len() > HEAD || client.read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(received)
}

fn end_of_head(received: &[u8]) -> Option<usize> {
    received.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4)
}

/// A request to a proxy.
struct Request<'r> {
    target: Target,
    /// Head of the request as the server gets it; `None` for a tunnel.
    forwarded: Option<Vec<u8>>,
    /// Bytes that the client sent after the head.
    rest: &'r [u8],
}

impl<'r> Request<'r> {
    fn parse(received: &'r [u8]) -> Option<Self> {
        let (head, rest) = received.split_at(end_of_head(received)?);
        let mut lines = str::from_utf8(head).ok()?.trim_end().split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, uri, version) = (words.next()?, words.next()?.parse::<http::Uri>().ok()?, words.next()?);
        if method == "CONNECT" {
            let target = Target::of_url(&uri, uri.port_u16()?)?;
            return Some(Self { target, forwarded: None, rest });
        }
        let target = Target::of_url(&uri, 80).filter(|_| uri.scheme_str() == Some("http"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut forwarded = format!("{method} {path} {version}\r\n");
        // One connection is for one request, so that the next one is looked at too.
        for line in lines {
            let name = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            if name != "connection" && name != "keep-alive" && !name.starts_with("proxy-") {
                forwarded += &format!("{line}\r\n");
            }
        }
        forwarded += "Connection: close\r\n\r\n";
        Some(Self { target, forwarded: Some(forwarded.into_bytes()), rest })
    }
}

enum Unreached {
    /// No address of the server may be contacted.
    Refused,
    Failed(String),
}

async fn connect(target: &Target, named: &Target) -> Result<TcpStream, Unreached> {
    let Target { host, port } = target;
    let failed = |why: io::Error| Unreached::Failed(format!("{host}:{port} cannot be reached: {why}"));
    let found = lookup_host((&**host, *port)).await.map_err(failed)?;
    let allowed: Vec<SocketAddr> = found.filter(|address| may_contact(address.ip(), target == named)).collect();
    if allowed.is_empty() {
        return Err(Unreached::Refused);
    }
    match timeout(CONNECT, TcpStream::connect(&*allowed)).await {
        Ok(connected) => connected.map_err(failed),
        Err(_) => Err(failed(io::ErrorKind::TimedOut.into())),
    }
}

/// Returns true if an address may be contacted: any but a link-local one for the server that a source names, public ones for others.
fn may_contact(address: IpAddr, is_named: bool) -> bool {
    match address {
        IpAddr::V4(address) if is_named => !address.is_link_local(),
        IpAddr::V4(address) => is_public(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => may_contact(IpAddr::V4(address), is_named),
            None if is_named => !address.is_unicast_link_local(),
            None => is_public_v6(address),
        },
    }
}

/// Returns true for an address of the public network. Source: IANA's registry of special-purpose addresses.
fn is_public(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || first == 0
        || first >= 240
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second));
    !is_special
}

/// Global unicast addresses are those of 2000::/3, of which 2001:db8::/32 is for documentation and 2001::/23 for protocols.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    first & 0xe000 == 0x2000 && !(first == 0x2001 && (second == 0xdb8 || second < 0x200))
}

/// Returns the address of the older version that one of the newer version stands for: mapped, translated, or in a tunnel.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_and_the_named_one_are_contacted() {
        for (address, public, named) in [
            ("140.82.112.3", true, true),
            ("127.0.0.1", false, true),
            ("10.1.2.3", false, true),
            ("172.31.0.1", false, true),
            ("192.168.0.1", false, true),
            ("100.64.0.1", false, true),
            ("198.18.0.1", false, true),
            ("192.0.0.192", false, true),
            ("0.0.0.0", false, true),
            ("224.0.0.1", false, true),
            ("169.254.169.254", false, false),
            ("2606:50c0:8000::154", true, true),
            ("::1", false, true),
            ("fd00:ec2::254", false, true),
            ("fe80::1", false, false),
            ("2001:db8::1", false, true),
            ("::ffff:169.254.169.254", false, false),
            ("::ffff:10.0.0.1", false, true),
            ("64:ff9b::a9fe:a9fe", false, false),
            ("2002:a00:1::", false, true),
            ("2002:8c52:7003::", true, true),
        ] {
            let parsed = address.parse().unwrap();
            assert_eq!((may_contact(parsed, false), may_contact(parsed, true)), (public, named), "{address}");
        }
    }

    #[test]
    fn requests_name_their_server() {
        let of = |text: &str| {
            let request = Request::parse(text.as_bytes())?;
            let forwarded = request.forwarded.map(|head| String::from_utf8(head).unwrap());
            Some((format!("{} {}", request.target.host, request.target.port), forwarded))
        };
        assert_eq!(of("CONNECT A.example:443 HTTP/1.1\r\nHost: b\r\n\r\n"), Some(("a.example 443".to_owned(), None)));
        assert_eq!(of("CONNECT [::1]:443 HTTP/1.1\r\n\r\n"), Some(("::1 443".to_owned(), None)));
        let plain = "GET http://a.example/x?y=1 HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: z\r\nConnection: keep-alive\r\n\r\n";
        let forwarded = "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        assert_eq!(of(plain), Some(("a.example 80".to_owned(), Some(forwarded.to_owned()))));
        for wrong in [
            "GET /x HTTP/1.1\r\n\r\n",
            "CONNECT a HTTP/1.1\r\n\r\n",
            "GET ftp://a/ HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
            "GET",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_private_server_that_is_not_named_is_not_reached() {
        let servers =
            [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
        let [named, other] = servers.each_ref().map(|server| server.local_addr().unwrap().port());
        let gate = Gate::open(Target { host: "127.0.0.1".to_owned(), port: named }).await.unwrap();
        let mut answers = vec![];
        for port in [named, other] {
            let mut client = TcpStream::connect(("127.0.0.1", gate.port())).await.unwrap();
            client.write_all(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            client.read_exact(&mut answer).await.unwrap();
            answers.push(String::from_utf8(answer.to_vec()).unwrap());
        }
        assert_eq!(answers, ["HTTP/1.1 200", "HTTP/1.1 502"]);
        assert_eq!(gate.refused(), [format!("127.0.0.1:{other}")].into());
        let [_, unasked] = servers;
        let asked = timeout(Duration::from_millis(50), unasked.accept()).await;
        assert!(asked.is_err(), "the other server has a connection");
    }
}
