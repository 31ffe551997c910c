@testable import GatewayConfiguration

/// A small valid conf file, and helpers that read others.
enum Conf {
    static let path = "conf/attestgate.yaml"

    static let valid =
        beginning + """
                require: certificate
                upstream: records

            """

    /// A file with every optional section, in which a route requires a request proof.
    static let attested =
        beginning + """
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

    /// The beginning of both files, up to the level of the first route.
    private static let beginning = """
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

        """

    /// A file that enrols phones with an issuer's tokens and an encrypted CA key.
    static let enrolling =
        attested + """
            enrolment:
              address: 127.0.0.1:8444
              tls:
                certificate: server.pem
                key: server.key
              url: https://localhost:8444
              authority:
                certificate: ca.pem
                key: ca.key
                passphrase_file: ca.passphrase
              certificate_life: 720h
              rotation_overlap: 0s
              nonce_life: 1m
              admission: token
              token:
                issuer: https://login.example.org/
                audience: https://enrol.example.org
                keys: [login.pem, login-next.pem]
              content_limit: 48KiB
              requests_per_minute: 6
              connections: 10
              connections_per_address: 2

            """

    /// A file system in which every file exists.
    static let anyFile = FileInspector { _ in nil }

    static func read(
        _ text: String, files: FileInspector = anyFile, role: Role = .both
    ) throws(ConfigurationError) -> (configuration: Configuration, warnings: [Diagnostic]) {
        try Configuration.parse(Array(text.utf8), path: path, files: files, role: role)
    }

    /// Returns the diagnostics of a refusal, or the warnings.
    static func diagnostics(_ text: String, files: FileInspector = anyFile) -> [Diagnostic] {
        do throws(ConfigurationError) {
            return try read(text, files: files).warnings
        } catch {
            return error.diagnostics
        }
    }

    /// Returns the valid conf file with one piece, which occurs exactly once, replaced.
    static func valid(replacing piece: String, by other: String) -> String {
        replacing(piece, by: other, in: valid)
    }

    /// Returns the file that requires request proofs with one piece replaced.
    static func attested(replacing piece: String, by other: String) -> String {
        replacing(piece, by: other, in: attested)
    }

    /// Returns the file that enrols with one piece replaced.
    static func enrolling(replacing piece: String, by other: String) -> String {
        replacing(piece, by: other, in: enrolling)
    }

    private static func replacing(_ piece: String, by other: String, in text: String) -> String {
        let parts = text.split(separator: piece, omittingEmptySubsequences: false)
        precondition(parts.count == 2, "the piece must stand in the valid file once")
        return parts.joined(separator: other)
    }
}
