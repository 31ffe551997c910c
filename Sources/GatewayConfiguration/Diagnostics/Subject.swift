/// What a conf file names outside of itself, and what may turn out to be at fault only when it is used.
public enum Subject: Hashable, Sendable {
    /// By its path, as it is opened.
    case file(String)
    /// A file where a private key should be, or a revocation list: the same one may be named elsewhere for what it is.
    case privateKey(String)
    case revocationList(String)
    /// One to listen on, as the conf file writes addresses.
    case address(String)
    /// One of an upstream, or one that is asked something: its name or address, and its port.
    case server(String)

    /// What it is wherever it is named.
    var anywhere: Subject {
        switch self {
        case .privateKey(let path), .revocationList(let path): .file(path)
        case .file, .address, .server: self
        }
    }
}
