"""The cases that need ROS: the way through the middleware. Import rclpy freely."""
