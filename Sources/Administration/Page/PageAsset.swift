/// What the page is made of: files of the folder beside this one, compiled into the program.
struct PageAsset {
    let path: String
    let contentType: StaticString
    let bytes: [UInt8]

    static let all =
        [
            PageAsset(path: "/", contentType: "text/html; charset=utf-8", bytes: PackageResources.page_html),
            PageAsset(path: "/page.css", contentType: "text/css; charset=utf-8", bytes: PackageResources.page_css),
            PageAsset(path: "/icon.svg", contentType: "image/svg+xml", bytes: PackageResources.icon_svg),
        ] + scripts

    private static let scripts = [
        ("/page.js", PackageResources.page_js), ("/dom.js", PackageResources.dom_js),
        ("/gateway.js", PackageResources.gateway_js), ("/decisions.js", PackageResources.decisions_js),
        ("/plots.js", PackageResources.plots_js), ("/status.js", PackageResources.status_js),
        ("/devices.js", PackageResources.devices_js),
    ].map { PageAsset(path: $0, contentType: "text/javascript; charset=utf-8", bytes: $1) }
}
