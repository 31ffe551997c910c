internal import Gateway
internal import GatewayConfiguration
internal import Logging

/// What the configuration says of the logs.
extension Blueprint {
    /// Where access is logged to; nil if nowhere.
    var accessDestination: LogWriter.Destination? {
        switch log.access {
        case .off: nil
        case .standardOutput: .standardOutput
        case .file(let path): .file(path)
        }
    }

    var accessLog: AccessLog.Settings {
        var disclosed = DisclosedFields()
        for field in log.fields {
            switch field {
            case .path: disclosed.insert(.path)
            case .query: disclosed.insert(.query)
            case .clientAddress: disclosed.insert(.clientAddress)
            case .userAgent: disclosed.insert(.userAgent)
            }
        }
        return AccessLog.Settings(
            isJSON: log.format == .json, disclosed: disclosed, sample: UInt64(log.sample),
            refusalsPerSecond: log.refusalsPerSecond, hasRequests: accessDestination != nil)
    }

    /// The error log.
    ///
    /// - Parameter writer: nil to write at once, on the thread that has something to say.
    func errorLog(_ writer: LogWriter?) -> ErrorLog {
        let level: Logger.Level =
            switch log.level {
            case .error: .error
            case .warning: .warning
            case .notice: .notice
            case .info: .info
            case .debug: .debug
            }
        return ErrorLog(
            logLevel: level, isJSON: log.format == .json, writer: writer,
            hasPriorities: JournalStream.isStandardError)
    }
}
