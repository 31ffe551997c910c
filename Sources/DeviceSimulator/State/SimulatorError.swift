internal import Foundation

/// What cannot be done with a file of the simulator's, in words for whoever runs it.
public struct SimulatorError: Error, Equatable, CustomStringConvertible, Sendable {
    public let description: String

    public init(_ description: String) { self.description = description }

    /// With what the system says to the call just made.
    static func system(_ doing: String) -> SimulatorError {
        SimulatorError("cannot \(doing): \(String(cString: strerror(errno)))")
    }

    /// The gateway gave no challenge that this device can answer.
    ///
    /// - Parameter status: of the challenge endpoint's response.
    public static func noChallenge(status: Int, denial: String?) -> SimulatorError {
        SimulatorError("the gateway gave no challenge: status \(status)" + (denial.map { ", \($0)" } ?? ""))
    }

    public static func noCertificate(_ path: String, for device: DeviceDirectory) -> SimulatorError {
        SimulatorError(
            "there is no client certificate \(path): attestgate-device enrol gets one; attestgate pki issue "
                + "--certificate-key \(device.certificatePublicKeyPath) --out \(path) makes one")
    }
}
