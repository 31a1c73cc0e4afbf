//! TLS for servers of tests, with a certificate of its own.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A connection of a client.
type Connection = StreamOwned<ServerConnection, TcpStream>;

/// Returns a function that begins a connection to a server on loopback, and the certificate of the server in PEM.
pub(crate) fn server() -> (impl Fn(TcpStream) -> io::Result<Connection> + Clone + Send + Sync, String) {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = signed.cert.pem();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let config = Arc::new(builder.with_no_client_auth().with_single_cert(vec![signed.cert.into()], key).unwrap());
    let open = move |stream| {
        let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, stream))
    };
    (open, certificate)
}
