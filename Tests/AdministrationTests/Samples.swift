import Cryptography
import Registry
import Vocabulary

@testable import Administration

/// Keys and registrations as an operator has them.
enum Sample {
    /// A fresh key each time.
    static func key() throws -> DeviceKey {
        let library = try LibraryContext()
        let pem = try PrivateKey.generateP256(library).pem()
        return try DeviceKey(pem: pem, library)
    }

    static func app(_ name: String = "app") throws -> AppID {
        guard let app = AppID("ABCDE12345.org.example.\(name)") else { throw DeviceKeyFault.noKey }
        return app
    }

    static func registration() throws -> DeviceRegistration {
        DeviceRegistration(
            app: try app(), platform: .iOS, environment: .production, publicKey: try key(), certificateKey: try key())
    }
}

extension DeviceAnswer {
    var document: DeviceDocument? {
        if case .device(let document) = self { document } else { nil }
    }

    var listed: DevicePage? {
        if case .page(let page) = self { page } else { nil }
    }
}
