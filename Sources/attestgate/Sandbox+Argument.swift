public import ArgumentParser
public import Lifecycle

extension Sandbox: ExpressibleByArgument {
    static let choices = allCases.map(\.rawValue).joined(separator: ", ")
}
