/// Figures as lines for a screen. The most important come first, and the rest is omitted if there is no room.
public struct TopPage: Sendable {
    /// The style of a text, if the terminal supports it.
    public enum Style: Equatable, Sendable {
        case plain, heading, good, bad
    }

    public struct Line: Equatable, Sendable {
        public let text: String
        public let style: Style

        init(_ text: String, _ style: Style = .plain) {
            self.text = text
            self.style = style
        }
    }

    public let lines: [Line]

    /// Creates a page.
    ///
    /// - Parameters:
    ///   - width: The number of columns. Longer lines are cut.
    ///   - height: The number of rows. Nil for no limit.
    public init(_ status: StatusDocument, _ figures: TopFigures, width: Int, height: Int?) {
        var lines = Self.summary(status, figures)
        lines.append(Line(""))
        lines += Self.phases(figures)
        lines += [Line("")] + Self.upstreams(figures)
        lines += [Line("")] + Self.denials(figures)
        lines += [Line("")] + Self.routes(figures)
        self.lines = lines.prefix(height ?? .max).map { Line(Self.shown($0.text, width), $0.style) }
    }

    /// Creates a page with a fault instead of figures.
    public init(fault: String, width: Int) {
        lines = [Line(Self.shown("the gateway is not reachable: \(fault)", width), .bad)]
    }

    // MARK: - Parts

    private static func summary(_ status: StatusDocument, _ figures: TopFigures) -> [Line] {
        let isReady = status.obstacles.isEmpty
        var lines = [
            Line(
                "attestgate \(status.version)  process \(status.process)  since \(status.startedAt)  generation "
                    + "\(status.generation)  cpu \(percent(figures.processor))  memory \(bytes(figures.memory))",
                .heading),
            Line(
                isReady ? "ready" : "NOT READY: \(status.obstacles.joined(separator: "; "))", isReady ? .good : .bad),
        ]
        if let reason = status.lastReload?.reason { lines.append(Line("LAST RELOAD FAILED: \(reason)", .bad)) }
        if let upgrade = status.failedUpgrade { lines.append(Line("UPGRADE FAILED: \(upgrade.reason)", .bad)) }
        let by = ["forwarded", "denied", "answered", "partial", "abandoned"].compactMap { decision in
            figures.requests[decision].map { "\(decision) \(rate($0))" }
        }
        // With one decision only, the sum equals that row.
        lines.append(
            Line(
                "requests \(rate(figures.requestsPerSecond))/s" + (by.isEmpty ? "" : ": \(by.joined(separator: ", "))"))
        )
        let refused = figures.handshakes.filter { !["full", "resumed", "abandoned"].contains($0.key) }
        lines.append(
            Line(
                "handshakes full \(rate(figures.handshakes["full"] ?? 0))/s, resumed "
                    + "\(rate(figures.handshakes["resumed"] ?? 0))/s, refused \(rate(refused.values.reduce(0, +)))/s   "
                    + "connections \(whole(figures.connections)), streams \(whole(figures.streams)), "
                    + "WebSockets \(whole(figures.tunnels))"))
        let groups = ["X25519MLKEM768", "X25519", "P-256", "other"].compactMap { group in
            figures.keyExchanges[group].flatMap { $0 > 0 ? "\(group) \(rate($0))/s" : nil }
        }
        if !groups.isEmpty { lines.append(Line("key exchanges \(groups.joined(separator: ", "))")) }
        if let isAvailable = figures.isRegistryAvailable {
            lines.append(
                Line(
                    "registry \(isAvailable ? "available" : "NOT AVAILABLE"): counters \(rate(figures.committed))/s, "
                        + "\(rate(figures.batch)) a commit, waiting \(whole(figures.registryWaiting)), errors "
                        + whole(figures.registryErrors), isAvailable ? .plain : .bad))
        }
        if let registry = status.registry, let since = registry.unavailableSince {
            lines.append(Line("REGISTRY NOT AVAILABLE since \(since): \(registry.reason ?? "")", .bad))
        }
        if let enrolment = status.enrolment {
            lines.append(
                Line(
                    "devices enrolled with admission \(enrolment.admission): certificates issued "
                        + "\(rate(figures.certificatesIssued ?? 0))/s"))
        }
        if figures.lost > 0 { lines.append(Line("LOST: \(whole(figures.lost)) blocks of the log, or spans", .bad)) }
        for worker in status.workers where !worker.up { lines.append(Line("worker \(worker.worker) IS SILENT", .bad)) }
        for statement in status.revocationLists + status.ocspResponses where statement.stale {
            lines.append(Line("STALE since \(statement.nextUpdate): \(statement.of)", .bad))
        }
        return lines
    }

    private static func phases(_ figures: TopFigures) -> [Line] {
        let rows = figures.phases.map { phase in
            [phase.name, rate(phase.perSecond), time(phase.half), time(phase.most), time(phase.nearlyAll)]
        }
        return table([["PHASE", "PER S", "P50", "P90", "P99"]] + rows, firstLeft: 1)
    }

    private static func upstreams(_ figures: TopFigures) -> [Line] {
        let rows = figures.servers.map { server in
            [
                server.upstream, server.name, server.state, rate(server.perSecond), rate(server.failuresPerSecond),
                whole(server.busy), whole(server.idle), whole(figures.waiting[server.upstream] ?? 0),
            ]
        }
        let lines = table(
            [["UPSTREAM", "SERVER", "STATE", "PER S", "FAILED", "BUSY", "IDLE", "WAITING"]] + rows, firstLeft: 3)
        let styles = figures.servers.map { ["usable", "probation"].contains($0.state) ? Style.plain : .bad }
        return zip(lines, [.heading] + styles).map { Line($0.text, $1) }
    }

    private static func denials(_ figures: TopFigures) -> [Line] {
        guard !figures.denials.isEmpty else { return [Line("no denials since start", .good)] }
        let rows = figures.denials.map { [$0.code, rate($0.perSecond), whole($0.total)] }
        return table([["DENIAL", "PER S", "SINCE START"]] + rows, firstLeft: 1)
    }

    private static func routes(_ figures: TopFigures) -> [Line] {
        let rows = figures.routes.filter { $0.value > 0 }.sorted { ($0.value, $1.key) > ($1.value, $0.key) }
            .map { [$0.key, rate($0.value)] }
        return table([["ROUTE", "PER S"]] + rows, firstLeft: 1)
    }

    // MARK: - Text

    /// Aligns words to the left and numbers to the right.
    ///
    /// - Parameter words: The number of columns with words.
    private static func table(_ rows: [[String]], firstLeft words: Int) -> [Line] {
        let widths = (0..<(rows.first?.count ?? 0)).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.enumerated().map { index, row in
            let cells = row.enumerated().map { column, cell in
                let space = String(repeating: " ", count: widths[column] - cell.count)
                return column < words ? cell + space : space + cell
            }
            return Line(cells.joined(separator: "  "), index == 0 ? .heading : .plain)
        }
    }

    /// Cuts a text and removes control characters. Parts come from the conf file and from certificates.
    private static func shown(_ text: String, _ width: Int) -> String {
        let plain = text.unicodeScalars.map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: Character(" ")
            default: Character(scalar)
            }
        }
        return String(plain.prefix(max(0, width)))
    }

    /// Formats a number with three significant digits.
    private static func rate(_ number: Double) -> String {
        number < 100 ? decimal(number, places: number < 10 ? 2 : 1) : whole(number)
    }

    private static func whole(_ number: Double) -> String { "\(Int64(number.rounded()))" }

    private static func percent(_ share: Double) -> String { "\(whole(share * 100))%" }

    private static func bytes(_ number: Double) -> String { "\(whole(number / 1_048_576)) MiB" }

    private static func time(_ seconds: Double?) -> String {
        guard let seconds else { return "-" }
        let micros = seconds * 1_000_000
        if micros < 1_000 { return "\(whole(micros)) us" }
        return micros < 1_000_000 ? "\(rate(micros / 1_000)) ms" : "\(rate(seconds)) s"
    }

    private static func decimal(_ number: Double, places: Int) -> String {
        let scale = places == 2 ? 100 : 10
        let scaled = Int64((number * Double(scale)).rounded())
        let rest = "\(scaled % Int64(scale))"
        return "\(scaled / Int64(scale))." + String(repeating: "0", count: places - rest.count) + rest
    }
}
