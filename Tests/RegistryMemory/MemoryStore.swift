package import EventLoop
package import Registry
package import Vocabulary

/// The content of a store in memory. It outlives the stores that are opened on it, as a file does.
package final class MemoryContent {
    package fileprivate(set) var state = StoreState(identity: StoreIdentity(store: RandomID(), epoch: RandomID()))
    /// The devices. Their numbers are their places, from 1 on.
    fileprivate var devices: [ExportedDevice] = []
    fileprivate var used: [SingleUseKind: [Fingerprint: Int64]] = [:]
    fileprivate var certificates: [CertificateSerial: ExportedCertificate] = [:]
    package var revokedSubjects: [Fingerprint: Int64] = [:]
    fileprivate var seen: [DeviceID: Int64] = [:]
    package var barredKeys: [BarredKeyKind: [KeyID: Int64]] = [:]
    fileprivate var tokens: [Fingerprint: FederationToken] = [:]
    fileprivate var services: [String: FederationService] = [:]
    package var secretCheck: Fingerprint?
    /// Whether an import was started and has not succeeded.
    package var isLoading = false
    /// Whether the store fails at the next counter, until this is false again.
    package var refusesCounters = false

    package init() {}

    package var isPopulated: Bool { !devices.isEmpty || !revokedSubjects.isEmpty }

    /// Checks the secret before the store is used.
    package func confirm(_ claim: SecretClaim) throws(StoreOpenError) {
        let known = SecretClaim.Registered(
            check: secretCheck, isPopulated: isPopulated, isShared: false, name: "memory")
        secretCheck = try claim.check(for: known)
        if let check = secretCheck { claim.confirm(check, in: known) }
    }

    package func refuseTokens(until end: Int64) { state.tokensRemoved = end }

    // MARK: - Facts

    fileprivate func facts(_ look: StoreLook) -> StoreFacts {
        var facts = StoreFacts(state: state)
        if let number = look.device.flatMap({ number(of: $0) }) {
            facts.device = details(number)
            facts.window = self[number].window
        }
        facts.isBindingKeyTaken =
            look.bindingKey.map { number(of: .binding($0)) != nil || isBarred($0, .mTLS) } ?? false
        facts.isHardwareKeyBarred = look.hardwareKey.map { isBarred($0, .hardware) } ?? false
        facts.isTagTaken = look.tag.map { number(of: .tag($0)) != nil } ?? false
        facts.developmentDevices =
            look.developmentDevices.map { app in
                devices.count { device in
                    device.identity.app == app && device.identity.environment == .development && device.revokedAt == nil
                }
            } ?? 0
        facts.isNonceUsed = look.nonce.map { used[.nonce]?[$0.id] != nil } ?? false
        facts.isTokenUsed = look.token.map { used[.token]?[$0.id] != nil } ?? false
        if look.certificateEnd, let device = look.device.flatMap({ number(of: $0) }) {
            let keys = Set(self[device].bindings.map(\.key))
            facts.certificateEnd = certificates.values.filter { keys.contains($0.key) }.map(\.notAfter).max()
        }
        facts.isSerialIssued = look.serial.map { certificates[$0] != nil } ?? false
        for subject in look.subjects {
            if revokedSubjects[subject] != nil { facts.barredSubjects.insert(subject) }
            facts.devicesOfSubject[subject] = numbers.filter {
                self[$0].subject == subject && self[$0].revokedAt == nil
            }
        }
        for key in look.hardwareKeys {
            if let id = number(of: .hardwareKey(key)) { facts.devices[key] = (id, self[id].revokedAt != nil) }
            if isBarred(key, .hardware) { facts.barredKeys[.hardware, default: []].insert(key) }
        }
        for key in look.bindingKeys {
            if let id = number(of: .binding(key)) {
                facts.bindings[key] = details(id).bindings.first { $0.key == key }
            }
            if isBarred(key, .mTLS) { facts.barredKeys[.mTLS, default: []].insert(key) }
        }
        facts.listed = look.listed.map(listed) ?? []
        addFederation(look, to: &facts)
        if let due = look.due {
            facts.due = Array(
                rows(due.rows).filter { $0.time <= due.time }.sorted { $0.time < $1.time }.prefix(due.limit))
        }
        return facts
    }

    private func addFederation(_ look: StoreLook, to facts: inout StoreFacts) {
        for id in look.federationTokens {
            facts.federationTokens[id] = found(id)
            facts.parents[id] = tokens[id]?.parent.flatMap { tokens[$0] }
        }
        if let time = look.tokensOfDevice, let id = look.device.flatMap({ number(of: $0) }) {
            let own = tokens.values.filter { $0.device == self[id].identity.hardwareKey && $0.expiresAt > time }
            facts.liveTokens = own.count
            let newest = own.filter { $0.kind == .instance && $0.revokedAt == nil }.max { $0.issuedAt < $1.issuedAt }
            facts.newestInstance = newest.flatMap { found($0.id) }
        }
        facts.service = look.service.flatMap { service($0) }
        facts.serviceWithURL = look.serviceURL.flatMap { service(.url($0))?.id }
        facts.services = services.count
    }

    private func found(_ id: Fingerprint) -> FoundToken? {
        guard let token = tokens[id], let device = number(of: .hardwareKey(token.device)) else { return nil }
        return FoundToken(
            token: token, device: device, isDeviceRevoked: self[device].revokedAt != nil,
            subject: self[device].subject)
    }

    private func service(_ selector: ServiceSelector) -> FederationService? {
        switch selector {
        case .id(let id): services[id]
        case .url(let url): services.values.first { $0.url == url }
        case .secret(let secret): services.values.first { $0.secret == secret }
        }
    }

    private func apply(_ write: FederationWrite) {
        switch write {
        case .insert(let token): tokens[token.id] = token
        case .retire(let id, let time): tokens[id] = tokens[id]?.revoked(at: time)
        case .revoke(let id, let time):
            tokens[id] = tokens[id]?.revoked(at: time)
            for child in tokens.values where child.parent == id { apply(.revoke(child.id, at: time)) }
        case .keep(let service): services[service.id] = service
        case .remove(let end, let limit):
            for token in removable.filter({ $0.expiresAt <= end }).prefix(limit) { tokens[token.id] = nil }
        }
    }

    /// The tokens from which no other was derived, in the order of their expiry.
    private var removable: [FederationToken] {
        let parents = Set(tokens.values.compactMap(\.parent))
        return tokens.values.filter { !parents.contains($0.id) }.sorted { $0.expiresAt < $1.expiresAt }
    }

    private func usedServices(of device: DeviceID) -> [FederationService] {
        let subject = self[device].subject
        let keys = numbers.filter { $0 == device || (subject != nil && self[$0].subject == subject) }
            .map { self[$0].identity.hardwareKey }
        let urls = Set(tokens.values.filter { $0.kind == .service && keys.contains($0.device) }.map(\.audience))
        return services.values.filter { $0.approvedAt != nil && urls.contains($0.url) }.sorted { $0.id < $1.id }
    }

    private func listed(_ listed: StoreLook.Listed) -> [(device: DeviceID, serials: [String])] {
        switch listed {
        case .unmarked(let serials, let after, let limit):
            let holders = numbers.filter { id in
                guard id.number > after?.number ?? 0, let attestation = self[id].attestation else { return false }
                return !attestation.isKeyListed && !Set(serials).isDisjoint(with: attestation.phone?.serials ?? [])
            }
            return holders.prefix(limit).map { ($0, []) }
        case .marked(let after, let limit):
            let marked = numbers.filter { $0.number > after?.number ?? 0 && self[$0].attestation?.isKeyListed == true }
            return marked.prefix(limit).map { ($0, self[$0].attestation?.phone?.serials ?? []) }
        }
    }

    private func rows(_ rows: StoreLook.Due.Rows) -> [StoreFacts.DueRow] {
        switch rows {
        case .receipts:
            numbers.compactMap { id in
                self[id].receipt?.refresh.nextAt.map {
                    StoreFacts.DueRow(time: $0, device: id, isRevoked: self[id].revokedAt != nil)
                }
            }
        case .bindings:
            numbers.flatMap { id in
                self[id].bindings.filter { $0.endedAt == nil }.compactMap { binding in
                    binding.endsAt.map { StoreFacts.DueRow(time: $0, device: id, key: binding.key) }
                }
            }
        case .used(let kind): (used[kind] ?? [:]).values.map { StoreFacts.DueRow(time: $0) }
        case .certificates: certificates.values.map { StoreFacts.DueRow(time: $0.notAfter) }
        case .federationTokens: removable.map { StoreFacts.DueRow(time: $0.expiresAt) }
        }
    }

    private func isBarred(_ key: KeyID, _ kind: BarredKeyKind) -> Bool { barredKeys[kind]?[key] != nil }

    fileprivate var numbers: [DeviceID] { devices.indices.compactMap { DeviceID(Int64($0 + 1)) } }

    fileprivate subscript(_ id: DeviceID) -> ExportedDevice {
        get { devices[Int(id.number) - 1] }
        set { devices[Int(id.number) - 1] = newValue }
    }

    fileprivate func number(of selector: DeviceSelector) -> DeviceID? {
        switch selector {
        case .id(let id): id.number <= devices.count ? id : nil
        case .hardwareKey(let key): numbers.first { self[$0].identity.hardwareKey == key }
        case .tag(let tag): numbers.first { self[$0].attestation?.tag == tag }
        case .binding(let key): numbers.first { self[$0].bindings.contains { $0.key == key } }
        }
    }

    fileprivate func device(_ id: DeviceID) -> Device {
        let device = self[id]
        return Device(
            id: id, identity: device.identity,
            state: device.revokedAt != nil ? .revoked : device.activatedAt == nil ? .pending : .active,
            registeredAt: device.registeredAt, approvedAt: device.approvedAt, revokedAt: device.revokedAt,
            highestCounter: device.window.highest, subject: device.subject, shown: device.shown, lastSeen: seen[id])
    }

    fileprivate func details(_ id: DeviceID) -> DeviceDetails {
        let device = self[id]
        return DeviceDetails(
            device: self.device(id),
            bindings: device.bindings.map {
                Binding(key: $0.key, device: id, createdAt: $0.createdAt, endedAt: $0.endedAt, endsAt: $0.endsAt)
            }.sorted { ($0.createdAt, $0.key.description) < ($1.createdAt, $1.key.description) },
            attestation: device.attestation.flatMap {
                AttestationRecord(
                    digest: $0.digest, certificateKey: $0.certificateKey, receipt: device.receipt?.content,
                    riskMetric: device.receipt?.riskMetric, systemVersion: $0.systemVersion, app: $0.app, tag: $0.tag,
                    phone: $0.phone, attestedAt: $0.attestedAt, isCertificateKeyAttested: $0.isCertificateKeyAttested,
                    isKeyListed: $0.isKeyListed)
            }, refresh: device.receipt?.refresh, signals: device.signals)
    }

    // MARK: - Writes

    fileprivate func apply(_ write: StoreWrite) {
        switch write {
        case .insert(let device): devices.append(device)
        case .bind(let key, let id, let time):
            self[id].bindings.append(ExportedBinding(key: key, createdAt: time, endsAt: nil, endedAt: nil))
        case .endBinding(let key, let id, let time): change(key, of: id) { (time, $0.endsAt) }
        case .expireBinding(let key, let id): change(key, of: id) { ($0.endsAt, $0.endsAt) }
        case .scheduleEnd(let key, let id, let end): change(key, of: id) { (nil, min($0.endsAt ?? end, end)) }
        case .scheduleEnds(let id, let end):
            for binding in self[id].bindings { change(binding.key, of: id) { (nil, min($0.endsAt ?? end, end)) } }
        case .revoke(let id, let time): self[id].revokedAt = self[id].revokedAt ?? time
        case .restore(let id, let time):
            self[id].revokedAt = nil
            barredKeys[.hardware]?[self[id].identity.hardwareKey] = nil
            if let next = self[id].receipt?.refresh.nextAt { schedule(id, min(next, time)) }
        case .approve(let id, let time): self[id].approvedAt = time
        case .activate(let id, let time): self[id].activatedAt = time
        case .setSubject(let subject, let id): self[id].subject = subject
        case .see(let seen):
            for id in seen.devices.map(\.id) { self.seen[id] = max(seen.day, self.seen[id] ?? 0) }
        case .spend(_, let id, let window, let shown): (self[id].window, self[id].shown) = (window, shown)
        case .use(let item, let kind): used[kind, default: [:]][item.id] = item.expiresAt
        case .issue(let serial, let key, let notAfter):
            certificates[serial] = ExportedCertificate(serial: serial, key: key, notAfter: notAfter)
        case .barSubject(let subject, let time): revokedSubjects[subject] = revokedSubjects[subject] ?? time
        case .barKey(let key, let kind, let time):
            barredKeys[kind, default: [:]][key] = barredKeys[kind]?[key] ?? time
        case .setState(let state): self.state = state
        case .scheduleReceipt(let id, let time): schedule(id, time)
        case .keepPhone(var phone, let id):
            phone.add(self[id].attestation?.phone?.serials ?? [])
            self[id].attestation?.phone = phone
        case .keepKeyAttestation(let attestation, let id, let time):
            self[id].attestation?.isCertificateKeyAttested = attestation != .missing
            if case .new(let version) = attestation {
                self[id].attestation?.attestedAt = time
                self[id].attestation?.systemVersion = version
            }
        case .keepEvidence(let evidence, let id, let time):
            self[id].attestation?.attestedAt = time
            if case .attestation(let version) = evidence { self[id].attestation?.systemVersion = version }
        case .keepApp(let app, let id): self[id].attestation?.app = app
        case .keepSignals(let signals, let id): self[id].signals = signals
        case .markListed(let id, let isListed): self[id].attestation?.isKeyListed = isListed
        case .keepReceipt(let id, let content, let riskMetric, let refresh):
            guard let known = self[id].receipt else { return }
            self[id].receipt = ExportedReceipt(
                content: content ?? known.content, riskMetric: riskMetric, refresh: refresh)
        case .federation(let write): apply(write)
        case .removeUsed(let kind, let end, let limit):
            for (id, _) in (used[kind] ?? [:]).filter({ $0.value <= end }).sorted(by: { $0.value < $1.value })
                .prefix(limit)
            {
                used[kind]?[id] = nil
            }
        case .removeCertificates(let end, let limit):
            for certificate in certificates.values.filter({ $0.notAfter <= end }).sorted(by: {
                $0.notAfter < $1.notAfter
            }).prefix(limit) {
                certificates[certificate.serial] = nil
            }
        }
    }

    /// Changes the end of an active binding.
    private func change(
        _ key: KeyID, of id: DeviceID, _ change: (ExportedBinding) -> (endedAt: Int64?, endsAt: Int64?)
    ) {
        guard let place = self[id].bindings.firstIndex(where: { $0.key == key && $0.endedAt == nil }) else { return }
        let before = self[id].bindings[place]
        let after = change(before)
        self[id].bindings[place] = ExportedBinding(
            key: key, createdAt: before.createdAt, endsAt: after.endsAt, endedAt: after.endedAt)
    }

    private func schedule(_ id: DeviceID, _ time: Int64) {
        guard let known = self[id].receipt else { return }
        let refresh = ReceiptRefresh(
            createdAt: known.refresh.createdAt, nextAt: time, askedAt: known.refresh.askedAt,
            outcome: known.refresh.outcome, failures: known.refresh.failures)
        self[id].receipt = ExportedReceipt(content: known.content, riskMetric: known.riskMetric, refresh: refresh)
    }

    // MARK: - Operations

    fileprivate func decide<Reply>(
        _ rule: StoreRule<Reply>
    ) throws(StoreError) -> (reply: Reply, writes: [StoreWrite]) {
        let decision = try rule.decide(facts(rule.look))
        decision.writes.forEach(apply)
        return (decision.reply(decision.reading.compactMap { number(of: $0) }.map(details)), decision.writes)
    }

    fileprivate func reply(to command: RegistryCommand, at time: Int64) throws(StoreError) -> RegistryReply {
        if let rule = command.rule(at: time) { return try decide(rule).reply }
        switch command {
        case .list(let after, let limit): return .devices(page(after, limit).map(device))
        case .listPending(let after, let limit):
            let pending = numbers.filter { device($0).state == .pending && $0.number > after?.number ?? 0 }
            return .devices(pending.prefix(max(0, limit)).map(device))
        case .search(let search, let after, let limit):
            let examined = page(after, DeviceSearch.examined)
            let found = examined.map(device).filter(search.admits).prefix(max(0, limit))
            return .found(
                FoundDevices(Array(found), limit: limit, examined: examined.count, last: examined.last))
        case .listSubject(let subject, let limit):
            let found = numbers.reversed().map(device).filter { $0.subject == subject }
            return .devices(Array(found.prefix(max(0, limit))))
        case .show(let selector):
            if let id = number(of: selector) { return .device(details(id)) }
            if case .binding = selector { throw .bindingUnknown }
            throw .deviceUnknown
        case .count(let after, let limit):
            let states = page(after, limit).map { device($0).state }
            return .count(
                DeviceCount(
                    all: states.count, revoked: states.count { $0 == .revoked },
                    pending: states.count { $0 == .pending },
                    last: page(after, limit).last, limit: limit))
        case .listRevokedCertificates(let after, let limit):
            let page = certificates.values.filter { certificate in
                after.map { $0.bytes.lexicographicallyPrecedes(certificate.serial.bytes) } ?? true
            }.sorted { $0.serial.bytes.lexicographicallyPrecedes($1.serial.bytes) }.prefix(max(0, limit))
            return .revokedCertificates(
                RevokedCertificatePage(page.compactMap(record), limit: limit, at: time))
        case .listExpiring(let place, let end):
            let ends = certificates.values.filter { certificate in
                let isLater = certificates.values.contains {
                    $0.key == certificate.key && $0.notAfter > certificate.notAfter
                }
                guard !isLater, let record = record(certificate) else { return false }
                return record.deviceRevokedAt == nil && record.bindingEndedAt == nil
            }.map(\.notAfter)
            return .expiring(
                ExpiringCertificates(ends: ends.filter { $0 >= place.notAfter && $0 <= end }.sorted(), next: nil))
        case .receiptFigures(let ceilings, let due):
            let counts = ceilings.map { app, highest in
                devices.count {
                    $0.identity.app == app && $0.revokedAt == nil && ($0.receipt?.riskMetric ?? 0) > highest
                }
            }
            return .receiptFigures(
                ReceiptFigures(aboveCeiling: counts, oldestDue: rows(.receipts).map(\.time).filter { $0 <= due }.min()))
        case .findToken(let id): return .foundToken(found(id))
        case .listTokens(let device):
            let own = tokens.values.filter {
                $0.device == self[device].identity.hardwareKey && $0.expiresAt > time
            }
            return .tokens(own.sorted { $0.issuedAt > $1.issuedAt })
        case .listUsedServices(let device): return .services(usedServices(of: device))
        case .findService(let selector): return .service(service(selector).map { .service($0) } ?? .unknown)
        case .listServices(let after, let limit):
            return .services(
                Array(services.values.filter { $0.id > after }.sorted { $0.id < $1.id }.prefix(max(0, limit))))
        case .export(let cursor, let limit): return .exportPage(exportPage(from: cursor, limit: limit, at: time))
        default: preconditionFailure("an operation with a rule")
        }
    }

    private func page(_ after: DeviceID?, _ limit: Int) -> ArraySlice<DeviceID> {
        numbers.filter { $0.number > after?.number ?? 0 }.prefix(max(0, limit))
    }

    private func record(_ certificate: ExportedCertificate) -> CertificateRecord? {
        guard let id = number(of: .binding(certificate.key)),
            let binding = self[id].bindings.first(where: { $0.key == certificate.key })
        else { return nil }
        return CertificateRecord(
            serial: certificate.serial, notAfter: certificate.notAfter, deviceRevokedAt: self[id].revokedAt,
            bindingEndedAt: binding.endedAt, bindingEndsAt: binding.endsAt)
    }

    // MARK: - Counters

    /// Decides on a value, and spends it if it is accepted.
    fileprivate func decide(_ entry: CounterEntry) -> CounterOutcome {
        guard entry.epoch == state.identity.epoch else { return .epochChanged }
        guard number(of: .id(entry.device)) != nil,
            let binding = self[entry.device].bindings.first(where: { $0.key == entry.binding })
        else { return .unknown }
        let device = self[entry.device]
        var (window, shown) = (device.window, device.shown)
        let outcome = window.spend(
            entry.counter, mode: entry.mode, showing: entry.shown, after: &shown, isRevoked: device.revokedAt != nil,
            isBound: binding.endedAt == nil)
        if outcome == .committed { (self[entry.device].window, self[entry.device].shown) = (window, shown) }
        return outcome
    }

    fileprivate func spend(_ counter: UInt32, of id: DeviceID) {
        guard number(of: .id(id)) != nil else { return }
        _ = self[id].window.accept(counter, mode: .unspent)
    }

    fileprivate func find(_ key: KeyID) -> FoundDevice? {
        guard let id = number(of: .binding(key)) else { return nil }
        let device = self[id]
        return FoundDevice(
            id: id, identity: device.identity, isRevoked: device.revokedAt != nil,
            isBound: device.bindings.contains { $0.key == key && $0.endedAt == nil }, window: device.window,
            shown: device.shown, posture: Posture(details(id), binding: key),
            isKeyListed: device.attestation?.isKeyListed ?? false)
    }
}

// MARK: - Exports

extension MemoryContent: RegistryAtRest {
    package func exportPage(
        from cursor: ExportCursor, at time: Int64
    ) throws(RegistryLoadError) -> ExportPage { exportPage(from: cursor, limit: ExportPage.rows, at: time) }

    fileprivate func exportPage(from cursor: ExportCursor, limit: Int, at time: Int64) -> ExportPage {
        let head = ExportHead(
            time: time, store: state.identity.store, revocationList: state.revocationList,
            tokensRemoved: state.tokensRemoved, secretCheck: secretCheck,
            hasFederation: !services.isEmpty || !tokens.isEmpty)
        let rows = section(cursor.section).filter {
            cursor.after.isEmpty || cursor.after.lexicographicallyPrecedes($0.place)
        }.sorted { $0.place.lexicographicallyPrecedes($1.place) }.prefix(limit)
        let next = rows.count == limit ? rows.last.map { ExportCursor(section: cursor.section, after: $0.place) } : nil
        return ExportPage(
            store: state.identity.store, records: (cursor == .start ? [.head(head)] : []) + rows.map(\.record),
            next: next ?? ExportCursor(behind: cursor.section))
    }

    private func section(_ section: ExportSection) -> [(place: [UInt8], record: ExportRecord)] {
        switch section {
        case .devices:
            numbers.map { id in
                var device = self[id]
                device.bindings = details(id).bindings.map { ExportedBinding($0) }
                return (ExportCursor(behind: id.number).after, .device(device))
            }
        case .certificates: certificates.values.map { ($0.serial.bytes, .certificate($0)) }
        case .usedTokens:
            (used[.token] ?? [:]).map { ($0.key.bytes, .usedToken(SingleUse(id: $0.key, expiresAt: $0.value))) }
        case .revokedSubjects: revokedSubjects.map { ($0.key.bytes, .revokedSubject($0.key, at: $0.value)) }
        case .services: services.values.map { (Array($0.id.utf8), .service($0)) }
        case .federationTokens: tokens.values.map { ($0.id.bytes, .federationToken($0)) }
        case .barredKeys:
            barredKeys.flatMap { kind, keys in
                keys.map { BarredKey(key: $0.key, kind: kind, barredAt: $0.value) }
            }.map { ($0.place, .barredKey($0)) }
        }
    }

    package func otherUsers() throws(RegistryLoadError) -> Int { 0 }

    package func load(
        at time: Int64, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) {
        guard devices.isEmpty else { throw .notEmpty }
        let loaded = MemoryContent()
        loaded.barredKeys = barredKeys
        loaded.state = state
        var head: ExportHead?
        try fill(
            RegistryLoading(at: time) { record, line throws(RegistryLoadError) in
                if case .head(let first) = record { head = first }
                try loaded.add(record, line)
            })
        for id in loaded.numbers where loaded.barredKeys[.hardware]?[loaded[id].identity.hardwareKey] != nil {
            loaded.apply(.revoke(id, at: time))
        }
        for id in loaded.numbers {
            for binding in loaded[id].bindings where loaded.barredKeys[.mTLS]?[binding.key] != nil {
                loaded.apply(.endBinding(binding.key, of: id, at: time))
            }
        }
        let identity = StoreIdentity(store: RandomID(), epoch: RandomID())
        (devices, used, certificates) = (loaded.devices, loaded.used, loaded.certificates)
        used[.nonce] = nil
        (tokens, services) = (loaded.tokens, loaded.services)
        (revokedSubjects, barredKeys) = (loaded.revokedSubjects, loaded.barredKeys)
        (state, secretCheck, isLoading) = (state.imported(head, as: identity, at: time), head?.secretCheck, false)
    }

    private func add(_ record: ExportRecord, _ line: Int) throws(RegistryLoadError) {
        switch record {
        case .head, .end: break
        case .device(let device):
            guard number(of: .hardwareKey(device.identity.hardwareKey)) == nil else {
                throw .refused(line: line, .hardwareKeyTwice)
            }
            let keys = device.bindings.map(\.key)
            guard Set(keys).count == keys.count, keys.allSatisfy({ number(of: .binding($0)) == nil }) else {
                throw .refused(line: line, .bindingKeyTwice)
            }
            if let tag = device.attestation?.tag, number(of: .tag(tag)) != nil {
                throw .refused(line: line, .tagTwice(tag))
            }
            apply(.insert(device))
        case .certificate(let certificate):
            if number(of: .binding(certificate.key)) != nil { certificates[certificate.serial] = certificate }
        case .usedToken(let token): apply(.use(token, .token))
        case .revokedSubject(let subject, let time): apply(.barSubject(subject, at: time))
        case .barredKey(let barred): apply(.barKey(barred.key, barred.kind, at: barred.barredAt))
        case .service(let service): apply(.federation(.keep(service)))
        case .federationToken(let token):
            if number(of: .hardwareKey(token.device)) != nil { apply(.federation(.insert(token))) }
        }
    }
}

/// A store in memory, for tests. It answers before a call returns. Nothing is durable.
package final class MemoryStore: StoreBackend {
    private let content: MemoryContent
    private var signal: (StoreSignal) -> Void = { _ in }
    /// Values that are spent in memory while the store fails.
    private var owed: [(DeviceID, UInt32)] = []
    package private(set) var isAvailable = true

    package init(_ content: MemoryContent = MemoryContent()) throws(StoreOpenError) {
        guard !content.isLoading else { throw .unfinishedImport(path: "memory") }
        self.content = content
    }

    package var identity: StoreIdentity { content.state.identity }
    package var takesBatch: Bool { true }
    package var takesLookup: Bool { true }

    package func start(on loop: Loop, at time: Int64, signal: @escaping (StoreSignal) -> Void) {
        self.signal = signal
        expire(at: time)
    }

    package func commit(_ entries: [CounterEntry], answer: @escaping (Int, CounterOutcome) -> Void) {
        if isAvailable, content.refusesCounters, !entries.isEmpty {
            isAvailable = false
            signal(.failed("refused by a test"))
        }
        guard isAvailable else {
            owed += entries.map { ($0.device, $0.counter) }
            return entries.indices.forEach { answer($0, .storeUnavailable) }
        }
        let outcomes = entries.map { content.decide($0) }
        signal(.confirmed(at: .now))
        let committed = outcomes.count { $0 == .committed }
        if committed > 0 { signal(.committed(committed)) }
        for (index, outcome) in outcomes.enumerated() { answer(index, outcome) }
    }

    package func find(_ key: KeyID, answer: @escaping (Result<FoundDevice?, StoreError>) -> Void) {
        answer(isAvailable ? .success(content.find(key)) : .failure(.unavailable))
    }

    package func perform(
        _ command: RegistryCommand, at time: Int64, answer: @escaping (Result<RegistryReply, StoreError>) -> Void
    ) {
        guard isAvailable else { return answer(.failure(.unavailable)) }
        do throws(StoreError) {
            let reply = try content.reply(to: command, at: time)
            signal(.changes(StoreChange.all(of: command, reply)))
            answer(.success(reply))
        } catch {
            answer(.failure(error))
        }
    }

    package func tick(at time: Int64) {
        if isAvailable {
            signal(.confirmed(at: .now))
        } else if !content.refusesCounters {
            for (device, counter) in owed { content.spend(counter, of: device) }
            owed = []
            isAvailable = true
            signal(.reopened)
            signal(.recovered)
        }
        if isAvailable { expire(at: time) }
    }

    private func expire(at time: Int64) {
        let rules =
            [UpkeepRules.endDueBindings(at: time, limit: 256)]
            + SingleUseKind.allCases.map { UpkeepRules.removeUsed($0, at: time, limit: 256) }
            + [UpkeepRules.removeCertificates(at: time, limit: 256), UpkeepRules.removeTokens(at: time, limit: 256)]
        for rule in rules {
            guard let ended = try? content.decide(rule).reply.ended, !ended.isEmpty else { continue }
            signal(.changes([.ended(ended)]))
        }
    }

    package func workOn() {}

    package func finish(_ done: @escaping () -> Void) { done() }
}

extension DeviceRegistry {
    /// Starts the thread of a store in memory.
    package static func start(
        _ content: sending MemoryContent, limits: RegistryLimits = RegistryLimits(),
        observe: @escaping @Sendable (StoreEvent) -> Void = { _ in }
    ) throws -> DeviceRegistry {
        try DeviceRegistry(MemoryStore(content), journal: nil, limits: limits, observe: observe)
    }
}
