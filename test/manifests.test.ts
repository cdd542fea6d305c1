import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Ajv } from 'ajv';
import t, { type Test } from 'tap';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { loadConfig } from '../src/core/config/load-config.ts';
import { referencedSecrets } from '../src/core/config/secret-references.ts';
import { ensureInstalled, pathOf } from './services/debian.ts';

/** Checks the container files against the schemas of the programs that read them. */

const pinned = /^[\w./-]+(?::[\w.-]+)?@sha256:[0-9a-f]{64}$/;

t.test('the compose file matches its schema, and pins every image', async (t) => {
  const ajv = new Ajv({ strict: false, formats: { duration: true } });
  const schema = JSON.parse(
    readFileSync('node_modules/dclint/schemas/compose.schema.json', 'utf8'),
  ) as object;
  const validate = ajv.compile({ ...schema, $schema: 'http://json-schema.org/draft-07/schema#' });
  const compose = parse(readFileSync('compose.yaml', 'utf8'), { merge: true }) as {
    services: Record<string, { image?: string; build?: string; read_only?: boolean; profiles?: string[] }>;
  };
  t.ok(validate(compose), JSON.stringify(validate.errors));
  t.notOk(
    validate({ ...compose, services: { waybill: { build: '.', readonly: true } } }),
    'a typo is an error',
  );
  for (const [name, { image, build, read_only: isReadOnly }] of Object.entries(compose.services))
    if (build === undefined) t.match(image, pinned, name);
    else t.equal(isReadOnly, true, name);
  await t.resolves(loadConfig('examples/compose/waybill.yml', { home: '/' }));
  const text = readFileSync('compose.yaml', 'utf8');
  for (const [, named = ''] of text.matchAll(/--profile (\w+)/g))
    t.ok(
      Object.values(compose.services).some(({ profiles = [] }) => profiles.includes(named)),
      named,
    );
});

t.test('the image has a pinned base, and runs as a numeric user', async (t) => {
  const text = readFileSync('Dockerfile', 'utf8');
  const [, base = ''] = /^ARG NODE_IMAGE=(.*)$/m.exec(text) ?? [];
  t.match(base, pinned);
  t.same(
    [...text.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image),
    ['${NODE_IMAGE}', '${NODE_IMAGE}'],
  );
  t.match(text, `base.name="${base.replace(/@.*/, '')}"`);
  t.match(text, /^USER \d+:\d+$/m);
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  t.match(text, `ARG VERSION=${version}\n`);
});

interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string };
  data?: Record<string, string>;
  spec?: { template?: { spec: { containers: Container[]; volumes?: { configMap?: { name: string } }[] } } };
}
interface Container {
  image: string;
  args: string[];
  ports: { containerPort: number }[];
}

const overlays = readdirSync('deploy/kubernetes/overlays');

function built(t: Test, overlay: string): Manifest[] {
  const copy = t.testdir({ kubernetes: {} });
  cpSync('deploy/kubernetes', path.join(copy, 'kubernetes'), { recursive: true });
  const place = path.join(copy, 'kubernetes/overlays', overlay);
  const kubectl = pathOf('kubectl') ?? '';
  const version = execFileSync(kubectl, ['version', '--client', '--output', 'json'], { encoding: 'utf8' });
  // Before version 1.21, directories have a separate key, which later versions deprecate. Debian 12 has
  // 1.20.
  if (Number(/"minor": "(\d+)/.exec(version)?.[1]) < 21) nameBases(path.join(place, 'kustomization.yaml'));
  const text = execFileSync(kubectl, ['kustomize', place], { encoding: 'utf8' });
  return parseAllDocuments(text).map((each) => each.toJS() as Manifest);
}

function nameBases(file: string): void {
  const { resources, ...others } = parse(readFileSync(file, 'utf8')) as { resources: string[] };
  const isBase = (name: string): boolean => name.startsWith('../');
  const kustomization = {
    ...others,
    bases: resources.filter(isBase),
    resources: resources.filter((name) => !isBase(name)),
  };
  writeFileSync(file, stringify(kustomization));
}

/** Errors of Kubernetes' own schema for a manifest, and unknown keys. */
async function objections(manifest: Manifest): Promise<string[]> {
  const [group = '', version = group] = manifest.apiVersion.split('/');
  const place = group === version ? version : `${group}/${version}`;
  const models = (await import(`kubernetes-models/${place}`)) as Record<
    string,
    { prototype: { validate: () => void } }
  >;
  const Model = models[manifest.kind];
  if (Model === undefined) return [`there is no ${manifest.apiVersion} ${manifest.kind}`];
  const unread = new Set<string>();
  try {
    // Its constructor would copy, and therefore read, all of its input.
    Model.prototype.validate.call(watched(manifest, '', unread));
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
  return [...unread];
}

/** The schema's code reads each key that it knows, so all unread keys are unknown. */
function watched<T extends object>(value: T, place: string, unread: Set<string>): T {
  const keys = Array.isArray(value) ? [] : Object.keys(value);
  for (const key of keys) unread.add(`${place}/${key}`);
  return new Proxy(value, {
    get: (target, key) => {
      const inner = Reflect.get(target, key) as unknown;
      const at = `${place}/${String(key)}`;
      unread.delete(at);
      return typeof inner === 'object' && inner !== null ? watched(inner, at, unread) : inner;
    },
  });
}

for (const overlay of overlays)
  t.test(`the overlay ${overlay} is valid for Kubernetes and waybill`, async (t) => {
    await ensureInstalled('kubectl');
    const manifests = built(t, overlay);
    t.ok(manifests.length >= 4, `${manifests.length} manifests`);
    for (const manifest of manifests) {
      t.same(await objections(manifest), [], `${manifest.kind} ${manifest.metadata.name}`);
      t.equal(manifest.metadata.namespace, 'waybill', manifest.kind);
    }
    const text = manifests.find(({ kind }) => kind === 'ConfigMap')?.data?.['waybill.yml'] ?? '';
    const place = t.testdir({ 'waybill.yml': text });
    const { config } = await loadConfig(path.join(place, 'waybill.yml'), { home: '/' });
    expectPods(t, manifests, config.server.http.port);
    const page = readFileSync('docs/containers.md', 'utf8');
    for (const { name } of referencedSecrets(config))
      t.match(page, name, 'the page lists the required secrets');
  });

/** Pods that the restricted level admits, each with the port that its command listens on. */
function expectPods(t: Test, manifests: readonly Manifest[], portOfHttp: number): void {
  const configMap = manifests.find(({ kind }) => kind === 'ConfigMap')?.metadata.name;
  for (const { spec, metadata } of manifests) {
    const pod = spec?.template?.spec;
    if (pod === undefined) continue;
    t.match(pod, {
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    });
    t.ok(
      pod.volumes?.some((volume) => volume.configMap?.name === configMap),
      'the configuration is mounted',
    );
    for (const container of pod.containers) {
      t.match(container, {
        image: /^registry\.example\.org\/waybill:/,
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
      });
      const port = container.args[0] === 'serve' ? portOfHttp : 9090;
      t.equal(container.ports[0]?.containerPort, port, metadata.name);
    }
  }
}

t.test('detects an unknown Kubernetes key and an invalid value', async (t) => {
  const service = (more: object): Manifest =>
    ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'x' },
      spec: { ports: [{ port: 80 }], ...more },
    }) as Manifest;
  t.same(await objections(service({})), []);
  t.same(await objections(service({ selektor: { a: 'b' } })), ['/spec/selektor']);
  t.not((await objections(service({ ports: [{ port: 'http' }] }))).length, 0);
});
