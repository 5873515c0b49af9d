"""What the operator's page, the API and the controller do with a large fabric that is watched."""
