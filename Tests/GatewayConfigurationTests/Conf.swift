@testable import GatewayConfiguration

/// A small conf file that is right, and ways to read others.
enum Conf {
    static let path = "conf/attestgate.yaml"

    static let valid = """
        listeners:
          - address: 127.0.0.1:8443
            tls:
              certificate: server.pem
              key: server.key
            clients:
              authorities: [ca.pem]
        upstreams:
          records:
            servers: [127.0.0.1:9000]
        routes:
          - name: records
            host: localhost
            path: /records
            require: certificate
            upstream: records

        """

    /// One in which a route demands a request proof, and every optional section stands.
    static let attested = """
        listeners:
          - address: 127.0.0.1:8443
            tls:
              certificate: server.pem
              key: server.key
            clients:
              authorities: [ca.pem]
        upstreams:
          records:
            servers: [127.0.0.1:9000]
        routes:
          - name: records
            host: localhost
            path: /records
            require: request-proof
            apps: [ABCDE12345.org.example.app]
            components: [x-location]
            upstream: records
        apps:
          - id: ABCDE12345.org.example.app
            environment: production
            counter: window 64
          - id: ABCDE12345.org.example.other
            environment: development
        registry:
          path: registry.sqlite
          secret: challenge.secret
          devices: 1000
        administration:
          socket: administration.socket
        proof:
          max_age: 60s
          challenge_life: 2m

        """

    /// Every file is there.
    static let anyFile = FileInspector { _ in nil }

    static func read(
        _ text: String, files: FileInspector = anyFile
    ) throws(ConfigurationError) -> (configuration: Configuration, warnings: [Diagnostic]) {
        try Configuration.parse(Array(text.utf8), path: path, files: files)
    }

    /// What is said about a file: the diagnostics of a refusal, or the warnings.
    static func diagnostics(_ text: String, files: FileInspector = anyFile) -> [Diagnostic] {
        do throws(ConfigurationError) {
            return try read(text, files: files).warnings
        } catch {
            return error.diagnostics
        }
    }

    /// The valid conf file with one piece of it, which it has exactly once, written differently.
    static func valid(replacing piece: String, by other: String) -> String {
        replacing(piece, by: other, in: valid)
    }

    /// The same with the file that demands request proofs.
    static func attested(replacing piece: String, by other: String) -> String {
        replacing(piece, by: other, in: attested)
    }

    private static func replacing(_ piece: String, by other: String, in text: String) -> String {
        let parts = text.split(separator: piece, omittingEmptySubsequences: false)
        precondition(parts.count == 2, "the piece must stand in the valid file once")
        return parts.joined(separator: other)
    }
}
