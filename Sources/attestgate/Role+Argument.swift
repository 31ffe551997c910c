internal import ArgumentParser
internal import GatewayConfiguration

extension Role: ExpressibleByArgument {
    static let choices = allCases.map(\.rawValue).joined(separator: ", ")
}
