public import ArgumentParser
public import GatewayConfiguration

extension Role: ExpressibleByArgument {
    static let choices = allCases.map(\.rawValue).joined(separator: ", ")
}
