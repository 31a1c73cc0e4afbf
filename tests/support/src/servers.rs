//! Servers on loopback that answer until the tests end.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

/// Serves the files of a folder over HTTP. Returns the URL of the folder, without a slash at the end.
pub fn files(folder: &Path) -> String {
    let folder = folder.to_owned();
    let port = serve(move |mut stream| {
        let name = Request::read(&mut BufReader::new(stream.try_clone()?))?.target;
        let (status, body) = match fs::read(folder.join(name.trim_start_matches('/'))) {
            Ok(body) => ("200 OK", body),
            Err(_) => ("404 Not Found", vec![]),
        };
        respond(&mut stream, status, &[], &body)
    });
    format!("http://127.0.0.1:{port}")
}

/// Serves the git repositories below a folder over HTTP. Returns the port.
pub fn git(folder: &Path) -> u16 {
    git_over(folder, Ok, |_| Ok(()))
}

/// Serves the git repositories below a folder over a protocol such as TLS: `open` begins a connection, and `close` ends it.
pub fn git_over<S: Read + Write>(
    folder: &Path,
    open: impl Fn(TcpStream) -> io::Result<S> + Send + Sync + 'static,
    close: impl Fn(&mut S) -> io::Result<()> + Send + Sync + 'static,
) -> u16 {
    let folder = folder.to_owned();
    serve(move |stream| {
        let mut reader = BufReader::new(open(stream)?);
        let request = Request::read(&mut reader)?;
        answer(reader.get_mut(), &request, &folder)?;
        close(reader.get_mut())
    })
}

/// Calls `answer` for each connection, in a thread of its own. A client may end a connection at any time.
fn serve(answer: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
    let port = listener.local_addr().expect("an address").port();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || _ = answer(stream));
        }
    });
    port
}

/// A request with its whole body: if a part of it were not read, closing the connection would reset it.
struct Request {
    method: String,
    target: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut impl BufRead) -> io::Result<Self> {
        let line = read_line(reader)?;
        let mut words = line.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut request = Self { method, target, headers: vec![], body: vec![] };
        while let Some((name, value)) = read_line(reader)?.split_once(": ") {
            request.headers.push((name.to_lowercase(), value.to_owned()));
        }
        if request.header("transfer-encoding") == Some("chunked") {
            while request.read_chunk(reader)? > 0 {}
        } else {
            let length = request.header("content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
            request.read_body(reader, length)?;
        }
        Ok(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the length of the chunk. The last one is empty.
    fn read_chunk(&mut self, reader: &mut impl BufRead) -> io::Result<u64> {
        let length = u64::from_str_radix(&read_line(reader)?, 16).map_err(io::Error::other)?;
        self.read_body(reader, length)?;
        read_line(reader)?;
        Ok(length)
    }

    fn read_body(&mut self, reader: &mut impl Read, length: u64) -> io::Result<()> {
        reader.take(length).read_to_end(&mut self.body).map(drop)
    }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Answers a request as `git http-backend` does.
fn answer(stream: &mut impl Write, request: &Request, folder: &Path) -> io::Result<()> {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let mut backend = Command::new("git");
    backend.arg("http-backend").env("GIT_PROJECT_ROOT", folder).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("REQUEST_METHOD", &request.method).env("PATH_INFO", path).env("QUERY_STRING", query);
    for (header, variable) in [
        ("content-type", "CONTENT_TYPE"),
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ] {
        backend.envs(request.header(header).map(|value| (variable, value)));
    }
    backend.env("CONTENT_LENGTH", request.body.len().to_string()).stderr(Stdio::null());
    let mut child = backend.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut input, body) = (child.stdin.take().expect("a pipe"), request.body.clone());
    thread::spawn(move || input.write_all(&body));
    let output = child.wait_with_output()?.stdout;
    let end = output.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(0);
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let headers: Vec<&str> = head.lines().filter(|line| !line.starts_with("Status: ")).collect();
    respond(stream, status, &headers, &output[end + 4..])
}

/// Writes the only response of a connection.
fn respond(stream: &mut impl Write, status: &str, headers: &[&str], body: &[u8]) -> io::Result<()> {
    let own = format!("Content-Length: {}", body.len());
    let headers = [headers, &["Connection: close", &own]].concat().join("\r\n");
    stream.write_all(format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n").as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}
