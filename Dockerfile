# Daybook as an image: the npm package with the packages of package-lock.json, on the Node that the
# tests run on. It has no PostgreSQL: DATABASE_URL names a server. It runs as a user without rights, and
# writes nothing outside of /tmp and its mounts. docs/packages.md has the commands.
FROM node:26.10.0-slim AS package
WORKDIR /source
# What .dockerignore lets in.
COPY . .
RUN npm ci --ignore-scripts
RUN npm run package -- --stage /package

# Without the programs that come by optional packages and install scripts: the image has its own Node.
FROM node:26.10.0-slim AS modules
WORKDIR /modules
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional --ignore-scripts

FROM node:26.10.0-slim
LABEL org.opencontainers.image.title="Daybook" \
      org.opencontainers.image.description="Self-hosted relay for chat completions" \
      org.opencontainers.image.version="0.1.0"
ENV NODE_ENV=production
COPY --from=package /package /app
COPY --from=modules /modules/node_modules /app/node_modules
RUN ["ln", "-s", "/app/bin/daybook.js", "/usr/local/bin/daybook"]
WORKDIR /app
# The user "node" of the base image, by its number, so that Kubernetes can see that it isn't root.
USER 1000:1000
EXPOSE 4000
ENTRYPOINT ["daybook"]
CMD ["start"]
