/// The resolution of upstream servers' names.
public struct ResolverConfiguration: Equatable, Sendable {
    /// Literal addresses. Empty for those of the system.
    public let nameservers: [ServerAddress]
    /// The timeout of one attempt.
    public let timeout: Duration
    public let attempts: Int
    /// The minimum and maximum lifetime of an answer, in whole seconds. The minimum never exceeds the maximum.
    public let minimumTTL: Duration
    public let maximumTTL: Duration
}

extension ResolverConfiguration {
    enum Keys {
        static let nameservers = Key(
            "nameservers",
            .distinct(
                .text(
                    "a literal address and a port, for example 127.0.0.53:53", matching: ServerAddress.literalPattern,
                    ServerAddress.parseLiteral),
                minimum: 1, maximum: 8),
            whenMissing: .allowed, "The nameservers.")
        static let timeout = Key(
            "timeout", .duration(.milliseconds(100) ... .seconds(10)), unit: "for one attempt",
            whenMissing: .means("1s"),
            "The timeout of a query to a nameserver.")
        static let attempts = Key(
            "attempts", .integer(1...10), unit: "questions", whenMissing: .means("3"),
            "How often a query is sent, to one nameserver after the other.")
        static let minimumTTL = Key(
            "minimum_ttl", .wholeSeconds(.seconds(1) ... .seconds(3600)), unit: "since the answer",
            whenMissing: .means("5s"), "The minimum time that an answer is used.")
        static let maximumTTL = Key(
            "maximum_ttl", .wholeSeconds(.seconds(1) ... .seconds(3600)), unit: "since the answer",
            whenMissing: .means("5m"), "The maximum time that an answer is used.")

        static let section = Section(
            path: "resolver",
            settings: [
                nameservers.setting, timeout.setting, attempts.setting, minimumTTL.setting, maximumTTL.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let nameservers = reader.read(Keys.nameservers)
        let timeout = reader.read(Keys.timeout)
        let attempts = reader.read(Keys.attempts)
        let minimumTTL = reader.read(Keys.minimumTTL)
        let maximumTTL = reader.read(Keys.maximumTTL)
        if let minimumTTL, let maximumTTL, minimumTTL > maximumTTL {
            reading.refuse(
                reader.place(of: reader.has(Keys.minimumTTL) ? Keys.minimumTTL : Keys.maximumTTL),
                "`minimum_ttl` (\(DurationText.format(minimumTTL))) is longer than `maximum_ttl`"
                    + " (\(DurationText.format(maximumTTL)))",
                expected: "`minimum_ttl` of at most \(DurationText.format(maximumTTL))")
            return nil
        }
        guard let timeout, let attempts, let minimumTTL, let maximumTTL,
            nameservers != nil || !reader.has(Keys.nameservers)
        else { return nil }
        self.nameservers = nameservers ?? []
        self.timeout = timeout
        self.attempts = attempts
        self.minimumTTL = minimumTTL
        self.maximumTTL = maximumTTL
    }
}
