internal import Administration
internal import EventLoop
internal import Gateway
internal import Glibc
internal import Registry
internal import Telemetry
internal import TelemetryExport

/// Metrics of the process, apart from those of its workers.
enum ProcessFamilies {
    static var build: [MetricFamily] {
        var family = MetricFamily(.gauge, "attestgate_build_info", "The version of AttestGate; always 1.")
        family.add(1, ["version": GatewayVersion.text])
        return [family]
    }

    /// By subject, not by file: paths describe the machine. If several have the same subject, the one that expires
    /// first.
    static func certificates(of blueprint: Blueprint) -> [MetricFamily] {
        var family = MetricFamily(
            .gauge, "attestgate_certificate_expiry_timestamp_seconds",
            "Expiry of a configured certificate, in seconds since 1970.")
        var ends: [CertificateExpiry] = []
        for certificate in blueprint.certificates {
            let place = ends.firstIndex {
                $0.isOfSamePlace(as: certificate) && $0.subject == certificate.subject
            }
            if let place {
                if certificate.notAfter < ends[place].notAfter { ends[place] = certificate }
            } else {
                ends.append(certificate)
            }
        }
        for end in ends {
            // The label `host` is present if a listener has several hosts, also below.
            family.add(
                end.notAfter,
                [
                    "listener": end.listener, "host": end.host, "upstream": end.upstream, "role": end.role.rawValue,
                    "subject": end.subject,
                ])
        }
        return [family]
    }

    /// Returns nothing if there are no lists.
    static func revocationLists(of blueprint: Blueprint) -> [MetricFamily] {
        guard blueprint.listeners.flatMap(\.allClients).contains(where: { !$0.clients.revocationLists.isEmpty }) else {
            return []
        }
        var family = MetricFamily(
            .gauge, "attestgate_crl_next_update_timestamp_seconds",
            "End of validity of an authority's revocation list, in seconds since 1970.")
        var made = MetricFamily(
            .gauge, "attestgate_crl_this_update_timestamp_seconds",
            "Creation of an authority's revocation list, in seconds since 1970.")
        var entries = MetricFamily(
            .gauge, "attestgate_crl_entries", "Number of certificates in an authority's revocation list.")
        var stale = MetricFamily(
            .gauge, "attestgate_crl_stale",
            "1 if an authority's revocation list is stale or not yet valid; with require-fresh its clients are refused."
        )
        let now = WallClock.seconds
        for listener in blueprint.listeners {
            for (host, clients) in listener.allClients {
                // If several authorities have the same name, the list that expires first.
                let byIssuer = Dictionary(grouping: clients.revocationLists, by: \.issuer)
                for (issuer, lists) in byIssuer.sorted(by: { $0.key < $1.key }) {
                    let labels: MetricFamily.Labels = [
                        "listener": listener.name, "host": host, "issuer": issuer,
                    ]
                    family.add(lists.map(\.nextUpdate).min() ?? 0, labels)
                    made.add(lists.map(\.thisUpdate).min() ?? 0, labels)
                    entries.add(lists.reduce(0) { $0 + $1.count }, labels)
                    stale.add(lists.allSatisfy { $0.isFresh(at: now) } ? 0 : 1, labels)
                }
            }
        }
        return [family, made, entries, stale]
    }

    /// Returns nothing if nothing is stapled.
    static func staples(of blueprint: Blueprint) -> [MetricFamily] {
        let staples = blueprint.staples
        guard !staples.isEmpty else { return [] }
        var family = MetricFamily(
            .gauge, "attestgate_ocsp_next_update_timestamp_seconds",
            "End of validity of a stapled OCSP response, in seconds since 1970.")
        for (listener, host, response) in staples {
            family.add(response.nextUpdate, ["listener": listener, "host": host, "subject": response.subject])
        }
        return [family]
    }

    static func apps(of blueprint: Blueprint) -> [MetricFamily] {
        var family = MetricFamily(
            .gauge, "attestgate_app_simulator", "1 if software phones of the app are accepted: never in production.")
        for app in blueprint.configuration.apps { family.add(app.isSimulated ? 1 : 0, ["app": app.id.description]) }
        return [family]
    }

    static func enforcement(of blueprint: Blueprint) -> [MetricFamily] {
        var family = MetricFamily(
            .gauge, "attestgate_route_enforcement_ratio",
            "Share of devices on which what the route requires is enforced, 0 to 1; routes that require a device.")
        for route in blueprint.routes where route.requirement.includesDevice {
            family.add(decimal: Double(route.enforcedPercent) / 100, ["route": route.name])
        }
        return [family]
    }

    static func spans(_ counts: SpanExportCounts, waiting: Int) -> [MetricFamily] {
        var spans = MetricFamily(
            .counter, "attestgate_spans_total",
            "Spans, by outcome; a request above the rate counts as one.")
        for fate in SpanExportCounts.SpanOutcome.allCases { spans.add(counts.count(of: fate), ["result": fate.name]) }
        var calls = MetricFamily(.counter, "attestgate_span_exports_total", "Export calls to the collector.")
        for outcome in SpanExportCounts.Outcome.allCases {
            calls.add(counts.count(of: outcome), ["result": outcome.name])
        }
        return [
            spans, calls,
            MetricFamily(
                .gauge, "attestgate_spans_waiting_bytes", "Spans queued for the collector.", waiting),
        ]
    }

    static func refusals(_ refusals: AdministrationRefusals) -> MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_administration_refused_total",
            "Requests and connections that the administration refused, by reason.")
        for reason in AdministrationRefusals.Reason.allCases {
            family.add(refusals.count(of: reason), ["reason": reason.rawValue])
        }
        return family
    }

    static func registry(_ registry: DeviceRegistry) -> [MetricFamily] {
        let metrics = registry.metrics
        var batches = MetricFamily(
            .histogram, "attestgate_registry_batch_size", "Counters per commit.")
        batches.add(
            buckets: metrics.batchSizes.map(UInt64.init), upTo: RegistryMetrics.batchBounds, sum: metrics.counters)
        var waiting = MetricFamily(.gauge, "attestgate_registry_waiting", "Operations queued for the store.")
        waiting.add(metrics.waiting, ["kind": "counter"])
        waiting.add(metrics.waitingLookups, ["kind": "lookup"])
        waiting.add(metrics.waitingCommands, ["kind": "command"])
        return [
            MetricFamily(
                .gauge, "attestgate_registry_available", "1 if the store accepts commits.",
                registry.isAvailable ? 1 : 0),
            MetricFamily(
                .counter, "attestgate_registry_counters_committed_total", "Counters committed to the store.",
                metrics.counters),
            MetricFamily(
                .counter, "attestgate_registry_commits_total", "Transactions that committed counters.",
                metrics.commits),
            batches, waiting,
            MetricFamily(
                .counter, "attestgate_registry_overflows_total",
                "Requests refused because the store's queue was full.", metrics.overflows),
            MetricFamily(
                .counter, "attestgate_registry_loads_total", "Lookups answered from the store, not from memory.",
                metrics.loads),
            MetricFamily(
                .counter, "attestgate_registry_errors_total", "Errors after which the store was reopened.",
                metrics.storeErrors),
            MetricFamily(
                .gauge, "attestgate_registry_journal_complete",
                "1 if the revocation journal contains every revocation.",
                registry.isJournalComplete == false ? 0 : 1),
        ]
    }

    /// Returns nothing if every server is configured by its address.
    static func names(_ names: NameBook) -> [MetricFamily] {
        guard !names.servers.isEmpty else { return [] }
        var lookups = MetricFamily(
            .counter, "attestgate_name_lookups_total", "Lookups of a server's name, by result.")
        var addresses = MetricFamily(
            .gauge, "attestgate_name_addresses", "Known addresses of the server; with 0 it receives no requests.")
        var stale = MetricFamily(
            .gauge, "attestgate_name_stale", "1 if the last lookup of the server's name failed.")
        var refused = MetricFamily(
            .counter, "attestgate_name_addresses_refused_total",
            "Addresses in answers that are not used: the gateway's own listeners, and addresses that are not of a machine."
        )
        for server in names.servers {
            let counts = names.counts(of: server)
            let name = server.description
            lookups.add(counts.resolved, ["server": name, "result": "resolved"])
            for fault in NameFault.allCases {
                lookups.add(counts.faults[fault.rawValue], ["server": name, "result": fault.name])
            }
            addresses.add(counts.addresses, ["server": name])
            stale.add(counts.isFailing ? 1 : 0, ["server": name])
            refused.add(counts.refused, ["server": name])
        }
        return [lookups, addresses, stale, refused]
    }

    static func reloads(_ state: ReloadState, generation: Int) -> [MetricFamily] {
        var reloads = MetricFamily(
            .counter, "attestgate_reloads_total", "Configuration reloads, by outcome.")
        reloads.add(state.succeeded, ["result": "success"])
        reloads.add(state.failed, ["result": "failure"])
        var families = [
            MetricFamily(
                .gauge, "attestgate_generation", "The configuration generation that is served; 1 at start.",
                generation),
            reloads,
        ]
        // Before the first reload, the configuration is that of the start.
        let isGood = if case .failed = state.last?.outcome { false } else { true }
        families.append(
            MetricFamily(
                .gauge, "attestgate_last_reload_success", "1 if the last reload succeeded, or there was none.",
                isGood ? 1 : 0))
        if let last = state.last {
            families.append(
                MetricFamily(
                    .gauge, "attestgate_last_reload_timestamp_seconds",
                    "End of the last reload, in seconds since 1970.", last.at))
        }
        return families
    }
}

/// Metrics of the process as the kernel reports them, under the names of Prometheus' client libraries.
enum ProcessFigures {
    /// Returns the metrics.
    ///
    /// - Parameter startedAt: In seconds since 1970.
    static func families(startedAt: Int64) -> [MetricFamily] {
        var families = [
            MetricFamily(
                .gauge, "process_start_time_seconds", "Start of the process, in seconds since 1970.", startedAt)
        ]
        var cpu = MetricFamily(
            .counter, "process_cpu_seconds_total", "CPU time used, user and system, in seconds.")
        cpu.add(decimal: cpuSeconds)
        families.append(cpu)
        if let (virtual, resident) = ProcessMemory.now {
            families.append(MetricFamily(.gauge, "process_virtual_memory_bytes", "Virtual memory.", virtual))
            families.append(
                MetricFamily(.gauge, "process_resident_memory_bytes", "Resident memory, in bytes.", resident))
        }
        if let open = openDescriptors {
            families.append(MetricFamily(.gauge, "process_open_fds", "Open file descriptors.", open))
        }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            families.append(
                MetricFamily(
                    .gauge, "process_max_fds", "Maximum number of open file descriptors.", UInt64(limit.rlim_cur)))
        }
        return families
    }

    private static var cpuSeconds: Double {
        var usage = rusage()
        guard getrusage(RUSAGE_SELF.rawValue, &usage) == 0 else { return 0 }
        return [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1_000_000 }
    }

    private static var openDescriptors: Int? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Without `.`, `..` and the descriptor of the directory itself.
        return count - 3
    }
}
