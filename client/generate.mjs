// Writes the types of the API from openapi.json: `node generate.mjs <openapi.json> <schema.ts>`. See build.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const [from, to] = process.argv.slice(2);
/** Schemas that are types of the AI SDK: see src/message.ts. */
const OWN = { '#/components/schemas/UIMessage': 'Message', '#/components/schemas/Part': 'MessagePart' };

const nodes = await openapiTS(JSON.parse(readFileSync(from, 'utf8')), {
  alphabetize: true,
  inject: "import type { Message, MessagePart } from './message.js';\n",
  transform: (_, { path }) => (OWN[path] ? ts.factory.createTypeReferenceNode(OWN[path]) : undefined),
});
writeFileSync(to, `// Generated from openapi.json: see ../build.\n${astToString(nodes)}`);
