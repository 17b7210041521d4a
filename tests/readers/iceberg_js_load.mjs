// Loads one table with iceberg-js and prints what came of it, as JSON.
//
// Usage: iceberg_js_load.mjs URI NAMESPACE TABLE HEADERS_JSON [ETAG]

import { createRequire } from 'node:module';

const [uri, namespace, name, headers, ifNoneMatch] = process.argv.slice(2);
const require = createRequire(`${process.env.READERS_NODE_MODULES}/`);
const { IcebergRestCatalog } = require('iceberg-js');
const catalog = new IcebergRestCatalog({
  baseUrl: uri,
  auth: { type: 'custom', getHeaders: async () => JSON.parse(headers) },
});
const tables = catalog.tableOps ?? catalog;
try {
  const id = { namespace: [namespace], name };
  const result = await tables.loadTableResult(id, { ifNoneMatch });
  console.log(JSON.stringify(result === null ? { notModified: true } : {
    etag: result.etag,
    restrictions: result['read-restrictions'] ?? null,
    location: result['metadata-location'],
  }));
} catch (error) {
  console.log(JSON.stringify({ error: error.message, status: error.status, type: error.icebergType }));
}
