"""The cases that need ROS: messages within one process, and the way through the middleware. Import rclpy freely."""
