/// The resolution of upstream servers' names.
public struct ResolverConfiguration: Equatable, ConfigurationSection {
    @Setting(
        key: "nameservers",
        .distinct(
            .text(
                "a literal address and a port, for example 127.0.0.53:53", matching: ServerAddress.literalPattern,
                ServerAddress.parseLiteral),
            minimum: 1, maximum: 8),
        "The nameservers.")
    var writtenNameservers: [ServerAddress]?
    @Setting(
        .duration(.milliseconds(100) ... .seconds(10)), unit: "for one attempt", default: "1s",
        "The timeout of a query to a nameserver.")
    public var timeout: Duration
    @Setting(
        .integer(1...10), unit: "questions", default: "3",
        "How often a query is sent, to one nameserver after the other.")
    public var attempts: Int
    /// Never more than `maximumTTL`.
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(3600)), unit: "since the answer", default: "5s",
        "The minimum time that an answer is used.")
    public var minimumTTL: Duration
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(3600)), unit: "since the answer", default: "5m",
        "The maximum time that an answer is used.")
    public var maximumTTL: Duration

    static let section = Section("resolver", of: Self.self)

    /// Literal addresses. Empty for those of the system.
    public var nameservers: [ServerAddress] { writtenNameservers ?? [] }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard let minimumTTL = _minimumTTL.value, let maximumTTL = _maximumTTL.value, minimumTTL > maximumTTL else {
            return true
        }
        let longest = DurationText.format(maximumTTL)
        reading.refuse(
            _minimumTTL.isWritten ? _minimumTTL.place : _maximumTTL.place,
            "`minimum_ttl` (\(DurationText.format(minimumTTL))) is longer than `maximum_ttl` (\(longest))",
            expected: "`minimum_ttl` of at most \(longest)")
        return false
    }
}
