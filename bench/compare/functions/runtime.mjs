// Lambda's runtime API for one bundled handler: `node runtime.mjs <file>`.
import http from "node:http";

const base = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;
const agent = new http.Agent({ keepAlive: true });
const call = (method, path, body) =>
  new Promise((resolve, reject) => {
    const request = http.request(`${base}/${path}`, { method, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part) => (text += part));
      response.on("end", () => resolve([response.headers["lambda-runtime-aws-request-id"], text]));
    });
    request.on("error", reject).end(body);
  });

const { handler } = (await import(process.argv[2])).default;
for (;;) {
  const [id, event] = await call("GET", "next");
  try {
    const answer = await handler(JSON.parse(event), { awsRequestId: id });
    await call("POST", `${id}/response`, JSON.stringify(answer));
  } catch (error) {
    await call("POST", `${id}/error`, JSON.stringify({ errorType: error.name, errorMessage: String(error.stack) }));
  }
}
